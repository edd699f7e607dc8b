/** Decides which addresses count as one for limits by address, and which belong to trusted proxies (`trust_proxy`). */
import { BlockList, isIP, isIPv6 } from 'node:net'

/** This text stands for the address of requests on a Unix socket, which have none. */
const UNIX_SOCKET = 'a Unix socket'

/** A limit by address remembers at most this many networks. */
export const MAX_NETWORKS = 10_000

export function addressOf(request: { readonly ip?: string | undefined }): string {
  return request.ip ?? UNIX_SOCKET
}

/** Returns the account, or `/` and the network for a request without a caller. No account's name contains a slash. */
export function senderOf(request: {
  readonly ip?: string | undefined
  readonly caller?: { readonly account: string }
}): string {
  return request.caller?.account ?? `/${networkOf(addressOf(request))}`
}

/**
 * Returns the part of an address that identifies the client. An IPv6 client usually owns a whole /64, so that counts as one
 * address. Some proxies add a port to X-Forwarded-For, which differs for each connection.
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

/** Removes the port of `192.0.2.1:4711` or `[2001:db8::1]:4711`. */
function withoutPort(address: string): string {
  const [, inBrackets, plain] = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(address) ?? []
  return inBrackets ?? plain ?? address
}

/** Converts an IPv4-mapped IPv6 address to IPv4. Other addresses stay unchanged. */
function unmapped(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address
}

/** Returns a function that checks whether an address is in one of these networks, such as `10.0.0.0/8` or `::1`. */
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

/** A peer on a Unix socket is a program on this machine. A list of proxies cannot name it, so every list trusts it. */
export function trustedProxies(
  trustProxy: boolean | string,
): boolean | ((address: string | undefined) => boolean) {
  if (typeof trustProxy === 'boolean') return trustProxy
  const isProxy = addressesIn(networksOf(trustProxy))
  return (address) => address === undefined || isProxy(address)
}
