/** Which addresses count as one for limits by address. */
import { isIPv6 } from 'node:net'

/** Stands for the address of requests on a Unix socket, which have none. */
const UNIX_SOCKET = 'a Unix socket'

export function addressOf(request: { readonly ip?: string | undefined }): string {
  return request.ip ?? UNIX_SOCKET
}

/** The account of a request, or else its address: no account has a name with a slash in front. */
export function senderOf(request: {
  readonly ip?: string | undefined
  readonly caller?: { readonly account: string }
}): string {
  return request.caller?.account ?? `/${networkOf(addressOf(request))}`
}

/** IPv6 hosts usually own a whole /64, so it counts as one address. IPv4-mapped IPv6 addresses count as IPv4. */
export function networkOf(address: string): string {
  const plain = unmapped(address)
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = plain.split('::')
  const groups = head.split(':').filter((group) => group !== '')
  const rest = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = Array<string>(Math.max(0, 8 - groups.length - rest.length)).fill('0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}

/** The IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged. */
export function unmapped(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address
}
