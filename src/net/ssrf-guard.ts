/**
 * Decides whether callbacks may be sent to an address. The URL is checked when a job is created. When the callback is sent,
 * guarded-connect.ts checks all addresses before connecting, and the address of the connected socket afterwards.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** All addresses of the range have the same first `prefix` bits as `address`. */
export type Network = readonly [address: Address, prefix: number]

/** The settings `callbacks.allow_networks` and `callbacks.https_only` determine these rules. */
export interface AddressRules {
  /** These ranges are allowed although they are usually blocked. They do not permit the addresses in `ALWAYS_BLOCKED`. */
  readonly allow: readonly Network[]
  readonly httpsOnly: boolean
}

/** Many servers reject longer request lines. Normalization can turn one character of the caller's URL into twelve. */
export const MAX_URL_LENGTH = 8192

/** DNS limits names and their parts to these lengths. */
const MAX_NAME_LENGTH = 253
const MAX_LABEL_LENGTH = 63

const SETTING = '`callbacks.allow_networks`'

/** Bits after the prefix are ignored, as in most software. `entry` is the first invalid entry. */
export function readNetworks(
  list: readonly string[],
):
  | { readonly ok: true; readonly networks: readonly Network[] }
  | { readonly ok: false; readonly entry: string } {
  const networks: Network[] = []
  for (const entry of list) {
    const network = readNetwork(entry)
    if (network === null) return { ok: false, entry }
    networks.push(network)
  }
  return { ok: true, networks }
}

/**
 * Returns whether callbacks must not connect to this address, which has no brackets. Any text that is not an address is
 * blocked. If `allow` contains an IPv4 range, IPv6 forms of its addresses stay blocked.
 */
export function isBlockedAddress(address: string, allow: readonly Network[]): boolean {
  const parsed = parseAddress(address)
  if (parsed === null || isAlwaysBlocked(parsed)) return true
  if (liesInAny(parsed, allow)) return false
  if (parsed.kind() === 'ipv4') return liesInAny(parsed, blockedIpv4)
  return !liesIn(parsed, publicIpv6) || liesInAny(parsed, blockedIpv6)
}

/**
 * Returns the loopback addresses of `localhost` and names below it, as far as `allow` contains them; null for any other name.
 * These names are never looked up in DNS (RFC 6761 §6.3), so `allow` with 127.0.0.0/8 is enough to use them.
 */
export function localhostAddresses(name: string, allow: readonly Network[]): readonly string[] | null {
  if (name !== LOCALHOST && !name.endsWith(`.${LOCALHOST}`)) return null
  return ['127.0.0.1', '::1'].filter((address) => !isBlockedAddress(address, allow))
}

/** Returns the host of a URL, without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
}

/**
 * Checks the URL of a callback without a DNS lookup. Send the callback to the returned `url`: normalization (WHATWG) gives each
 * address only one spelling, and the host has no trailing dot. The name of the field followed by `rule` is a message.
 */
export function checkCallbackUrl(
  text: string,
  rules: AddressRules,
): { readonly ok: true; readonly url: string } | { readonly ok: false; readonly rule: string } {
  const reject = (rule: string) => ({ ok: false, rule }) as const
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    return reject(rules.httpsOnly ? 'must be an absolute https URL' : 'must be an absolute http or https URL')
  }
  if (rules.httpsOnly && url.protocol !== 'https:') {
    return reject('must be an https URL, because the setting `callbacks.https_only` is on')
  }
  if (url.username !== '' || url.password !== '') {
    return reject('must not contain a user name or password; use callback_headers for credentials')
  }
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  if (url.href.length > MAX_URL_LENGTH) {
    return reject(`must be at most ${MAX_URL_LENGTH} characters long when encoded`)
  }
  const rule = hostRule(hostOf(url), rules.allow)
  return rule === null ? { ok: true, url: url.href } : reject(rule)
}

/** Returns what is wrong with a host. The message names the setting that could allow the host, if one can. */
function hostRule(host: string, allow: readonly Network[]): string | null {
  const address = parseAddress(host)
  if (address !== null) {
    if (isAlwaysBlocked(address)) {
      return `leads to ${host}, which callbacks can never be sent to, regardless of the setting ${SETTING}`
    }
    if (!isBlockedAddress(host, allow)) return null
    return `leads to ${host}, which is not a public address; the setting ${SETTING} can allow its network`
  }
  if (host.length > MAX_NAME_LENGTH || host.split('.').some((label) => !isLabel(label))) {
    return `has the host "${host.slice(0, MAX_NAME_LENGTH)}", which is not a valid DNS name`
  }
  if (localhostAddresses(host, allow)?.length === 0) {
    return `leads to ${host}, this server's own host; the setting ${SETTING} can allow it with 127.0.0.0/8 or ::1/128`
  }
  if (BLOCKED_NAMES.includes(host) || BLOCKED_SUFFIXES.some((suffix) => host.endsWith(suffix))) {
    return `leads to ${host}, a name of a private network, which is never allowed: the setting ${SETTING} applies to addresses only`
  }
  return null
}

function isLabel(label: string): boolean {
  return label.length > 0 && label.length <= MAX_LABEL_LENGTH
}

/** Accepts only plain addresses. `ipaddr.js` would also accept forms such as `127.1`. */
function parseAddress(text: string): Address | null {
  return isIP(text) === 0 ? null : ipaddr.parse(text)
}

function readNetwork(entry: string): Network | null {
  const [text = '', prefixText, ...rest] = entry.split('/')
  const address = parseAddress(text)
  if (address === null || rest.length > 0) return null
  const bits = address.kind() === 'ipv4' ? 32 : 128
  if (prefixText === undefined) return [address, bits]
  const prefix = /^\d{1,3}$/.test(prefixText) ? Number(prefixText) : Number.POSITIVE_INFINITY
  return prefix <= bits ? [address, prefix] : null
}

function liesIn(address: Address, [range, prefix]: Network): boolean {
  return address.kind() === range.kind() && address.match(range, prefix)
}

function liesInAny(address: Address, networks: readonly Network[]): boolean {
  return networks.some((network) => liesIn(address, network))
}

function isAlwaysBlocked(address: Address): boolean {
  if (liesInAny(address, alwaysBlocked)) return true
  return address.kind() === 'ipv6' && carriedIpv4(address).some((inner) => liesInAny(inner, alwaysBlocked))
}

/**
 * Returns the IPv4 addresses that packets to this IPv6 address may reach. Outside the public range, they are in the last 32
 * bits (mapped, compatible, translated, NAT64, ISATAP). In 6to4 addresses they follow the prefix, and in Teredo addresses they
 * are the inverted last 32 bits. Without this check, allowing such a range would also allow the addresses that are always
 * blocked.
 */
function carriedIpv4(address: Address): readonly Address[] {
  const bytes = address.toByteArray()
  if (liesIn(address, sixToFour)) return [new ipaddr.IPv4(bytes.slice(2, 6))]
  if (liesIn(address, teredo)) return [new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff))]
  return liesIn(address, publicIpv6) ? [] : [new ipaddr.IPv4(bytes.slice(12))]
}

/** An invalid entry in the lists of this file is a bug. */
function parseNetwork(entry: string): Network {
  const network = readNetwork(entry)
  if (network === null) throw new Error(`${entry} is not a CIDR range`)
  return network
}

/** These ranges are not for public hosts, or serve metadata to cloud machines. */
const BLOCKED_IPV4: readonly string[] = [
  '0.0.0.0/8', // this host on this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // carrier-grade NAT
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // Azure's platform
  '169.254.0.0/16', // link-local, where clouds serve metadata
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // automatic multicast tunneling
  '192.88.99.0/24', // 6to4 relays, deprecated
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarking
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
]

/** All of IPv6 outside this range is blocked, because only this range is assigned to public hosts. */
const PUBLIC_IPV6 = '2000::/3'

const BLOCKED_IPV6: readonly string[] = [
  '2001::/23', // protocol assignments, Teredo among them
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4, which carries any IPv4 address inside
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
]

/** Clouds serve metadata, such as credentials, at these addresses. `allow_networks` cannot allow them. */
const ALWAYS_BLOCKED: readonly string[] = [
  '169.254.169.254', // AWS, Azure, Google and most others
  'fd00:ec2::254', // AWS
  '168.63.129.16', // Azure's platform
  '100.100.100.200', // Alibaba
  '192.0.0.192', // Oracle
]

/** The name of this machine is allowed if `allow_networks` contains loopback. */
const LOCALHOST = 'localhost'

/** These names are blocked regardless of their addresses and of `allow_networks`. */
const BLOCKED_NAMES: readonly string[] = ['metadata.google.internal']

/** All names below these domains are blocked, because they exist only in private networks. */
const BLOCKED_SUFFIXES: readonly string[] = ['.local', '.internal']

const blockedIpv4 = BLOCKED_IPV4.map(parseNetwork)
const blockedIpv6 = BLOCKED_IPV6.map(parseNetwork)
const publicIpv6 = parseNetwork(PUBLIC_IPV6)
const alwaysBlocked = ALWAYS_BLOCKED.map(parseNetwork)
const sixToFour = parseNetwork('2002::/16')
const teredo = parseNetwork('2001::/32')
