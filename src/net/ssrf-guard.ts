/**
 * Which addresses callbacks may go to. Pure checks, of a URL when a job is created and of every address before and after
 * it is connected to; dial.ts asks them when a callback is sent.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import {
  ALWAYS_REFUSED,
  LOCALHOST,
  OPEN_IPV6,
  REFUSED_IPV4,
  REFUSED_IPV6,
  REFUSED_NAMES,
  REFUSED_SUFFIXES,
} from './blocked-ranges.ts'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** One range: an address and how many of its leading bits count. */
export type Network = readonly [address: Address, prefix: number]

/** What the operator decided: the settings `callbacks.allow_networks` and `callbacks.https_only`. */
export interface AddressRules {
  /** Ranges that are open although the list of this service refuses them. */
  readonly allow: readonly Network[]
  readonly httpsOnly: boolean
}

/**
 * URLs that are longer in their normal form are refused: many servers take no longer request line. As it is written a URL
 * is shorter (job/request.ts), but a character may become nine.
 */
export const MAX_URL_LENGTH = 8192

/** DNS carries no longer name, and no longer part of one. */
const MAX_NAME_LENGTH = 253
const MAX_LABEL_LENGTH = 63

const SETTING = '`callbacks.allow_networks`'

/**
 * Reads the setting `callbacks.allow_networks`: ranges as `10.0.0.0/8` or `fd00::/8`, or single addresses. Bits beyond
 * the prefix are ignored, as most software does. `entry` is the first text that is neither.
 */
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
 * Whether no callback may connect to this address, given as text without brackets. Everything that is not the plain text
 * of an address is refused. IPv6 forms that carry an IPv4 address lie outside of what is open, so a range of IPv4
 * addresses in `allow` does not open them.
 */
export function isBlockedAddress(address: string, allow: readonly Network[]): boolean {
  const parsed = parseAddress(address)
  if (parsed === null || isAlwaysRefused(parsed)) return true
  if (liesInAny(parsed, allow)) return false
  if (parsed.kind() === 'ipv4') return liesInAny(parsed, refusedIpv4)
  return !liesIn(parsed, openIpv6) || liesInAny(parsed, refusedIpv6)
}

/**
 * The loopback addresses that a name for this very host stands for, as far as `allow` opens them; null for every other
 * name. Such names never go to DNS (RFC 6761 §6.3), so opening 127.0.0.0/8 alone is enough to use them.
 */
export function localhostAddresses(name: string, allow: readonly Network[]): readonly string[] | null {
  if (name !== LOCALHOST && !name.endsWith(`.${LOCALHOST}`)) return null
  return ['127.0.0.1', '::1'].filter((address) => !isBlockedAddress(address, allow))
}

/** The host of a URL as it is connected to: without the brackets of IPv6. */
export function hostOf(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
}

/**
 * Checks a callback's URL as far as that goes without asking DNS. `url` is the URL as it will be used: in the normal form
 * of the WHATWG standard, in which every way to write an address has become one, and without the dot that may end a name.
 * `rule` says what is wrong, to be put after the name of the field.
 */
export function checkCallbackUrl(
  text: string,
  rules: AddressRules,
): { readonly ok: true; readonly url: string } | { readonly ok: false; readonly rule: string } {
  const refuse = (rule: string) => ({ ok: false, rule }) as const
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    return refuse(rules.httpsOnly ? 'must be an absolute https URL' : 'must be an absolute http or https URL')
  }
  if (rules.httpsOnly && url.protocol !== 'https:') {
    return refuse('must be an https URL, because the setting `callbacks.https_only` is on')
  }
  if (url.username !== '' || url.password !== '') {
    return refuse('must not hold a user name or a password; callback_headers can carry credentials')
  }
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  if (url.href.length > MAX_URL_LENGTH) {
    return refuse(`must be at most ${MAX_URL_LENGTH} characters long once it is encoded`)
  }
  const rule = hostRule(hostOf(url), rules.allow)
  return rule === null ? { ok: true, url: url.href } : refuse(rule)
}

/** What is wrong with a host, or null. It names the setting that decides, or says that no setting does. */
function hostRule(host: string, allow: readonly Network[]): string | null {
  const address = parseAddress(host)
  if (address !== null) {
    if (isAlwaysRefused(address)) {
      return `leads to ${host}, which callbacks may never go to, whatever the setting ${SETTING} says`
    }
    if (!isBlockedAddress(host, allow)) return null
    return `leads to ${host}, which is not a public address; the setting ${SETTING} can open its network`
  }
  if (host.length > MAX_NAME_LENGTH || host.split('.').some((label) => !isLabel(label))) {
    return `has "${host.slice(0, MAX_NAME_LENGTH)}" as its host, which is no name that DNS could hold`
  }
  if (localhostAddresses(host, allow)?.length === 0) {
    return `leads to ${host}, this very host; the setting ${SETTING} can open it with 127.0.0.0/8 or ::1/128`
  }
  if (REFUSED_NAMES.includes(host) || REFUSED_SUFFIXES.some((suffix) => host.endsWith(suffix))) {
    return `leads to ${host}, a name of a private network, which is refused: the setting ${SETTING} opens addresses only`
  }
  return null
}

function isLabel(label: string): boolean {
  return label.length > 0 && label.length <= MAX_LABEL_LENGTH
}

/** Only the plain forms, as resolvers and sockets give them; never `127.1`, which `ipaddr.js` would take. */
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

function isAlwaysRefused(address: Address): boolean {
  if (liesInAny(address, alwaysRefused)) return true
  return address.kind() === 'ipv6' && carriedIpv4(address).some((inner) => liesInAny(inner, alwaysRefused))
}

/**
 * The IPv4 addresses that an IPv6 address may be delivered to: in the last 32 bits outside of the public part (mapped,
 * compatible, translated, NAT64, ISATAP), after the prefix of 6to4, and inverted at the end of Teredo. Without this, opening
 * such a range would open the addresses that are always refused.
 */
function carriedIpv4(address: Address): readonly Address[] {
  const bytes = address.toByteArray()
  if (liesIn(address, sixToFour)) return [new ipaddr.IPv4(bytes.slice(2, 6))]
  if (liesIn(address, teredo)) return [new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff))]
  return liesIn(address, openIpv6) ? [] : [new ipaddr.IPv4(bytes.slice(12))]
}

/** For our own lists only: a slip in them is a bug. */
function ownNetwork(entry: string): Network {
  const network = readNetwork(entry)
  if (network === null) throw new Error(`${entry} is no range`)
  return network
}

const refusedIpv4 = REFUSED_IPV4.map(ownNetwork)
const refusedIpv6 = REFUSED_IPV6.map(ownNetwork)
const openIpv6 = ownNetwork(OPEN_IPV6)
const alwaysRefused = ALWAYS_REFUSED.map(ownNetwork)
const sixToFour = ownNetwork('2002::/16')
const teredo = ownNetwork('2001::/32')
