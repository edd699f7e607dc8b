/** Which addresses the limits by address count as one, and which belong to trusted proxies (`trust_proxy`). */
import { BlockList, isIP, isIPv6 } from 'node:net'

/** Stands for the address of requests on a Unix socket, which have none. */
const UNIX_SOCKET = 'a Unix socket'

export function addressOf(request: { readonly ip?: string | undefined }): string {
  return request.ip ?? UNIX_SOCKET
}

/** The account of a request, or its address with a slash in front, which no account's name has. */
export function senderOf(request: {
  readonly ip?: string | undefined
  readonly caller?: { readonly account: string }
}): string {
  return request.caller?.account ?? `/${networkOf(addressOf(request))}`
}

/**
 * IPv6 hosts usually own a whole /64, so it counts as one address. IPv4-mapped IPv6 addresses count as IPv4. A port does not
 * count: some proxies add it to X-Forwarded-For, and a client has another one for each connection.
 */
export function networkOf(address: string): string {
  const plain = unmapped(withoutPort(address))
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = plain.split('::')
  const groups = head.split(':').filter((group) => group !== '')
  const rest = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = Array<string>(Math.max(0, 8 - groups.length - rest.length)).fill('0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}

/** The address in `192.0.2.1:4711` or `[2001:db8::1]:4711`. */
function withoutPort(address: string): string {
  const [, inBrackets, plain] = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(address) ?? []
  return inBrackets ?? plain ?? address
}

/** The IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged. */
function unmapped(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address
}

/** Whether a text is an address in one of these networks, such as `10.0.0.0/8` or `::1`. */
export function addressesIn(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => {
    const plain = unmapped(address)
    const version = isIP(plain)
    return version !== 0 && list.check(plain, version === 6 ? 'ipv6' : 'ipv4')
  }
}

export function networksOf(trustProxy: boolean | string): string[] {
  return typeof trustProxy === 'string' ? trustProxy.split(',').map((entry) => entry.trim()) : []
}

/**
 * The `trustProxy` option for Fastify. A peer on a Unix socket is a program of this machine and has no address, so it is trusted
 * if any proxy is.
 */
export function trustedProxies(
  trustProxy: boolean | string,
): boolean | ((address: string | undefined) => boolean) {
  if (typeof trustProxy === 'boolean') return trustProxy
  const isProxy = addressesIn(networksOf(trustProxy))
  return (address) => address === undefined || isProxy(address)
}
