/**
 * Lists the address ranges and names that callbacks cannot be sent to; ssrf-guard.ts applies them.
 *
 * The ranges come from IANA's special-purpose address registries (private, local, reserved, for documentation or tests), with
 * the addresses at which clouds serve credentials to their machines.
 */

/** All of IPv4 is allowed except these ranges. */
export const BLOCKED_IPV4: readonly string[] = [
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

/** All of IPv6 is blocked except this range, the only one assigned to public hosts. */
export const PUBLIC_IPV6 = '2000::/3'

/** These parts of that range are blocked. */
export const BLOCKED_IPV6: readonly string[] = [
  '2001::/23', // protocol assignments, Teredo among them
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4, which carries any IPv4 address inside
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
]

/** Blocked regardless of `allow_networks`: metadata servers return the credentials of the machine. */
export const ALWAYS_BLOCKED: readonly string[] = [
  '169.254.169.254', // AWS, Azure, Google and most others
  'fd00:ec2::254', // AWS
  '168.63.129.16', // Azure's platform
  '100.100.100.200', // Alibaba
  '192.0.0.192', // Oracle
]

/** The name of this host. It is allowed if `allow_networks` allows loopback. */
export const LOCALHOST = 'localhost'

/** Names that are blocked regardless of what they resolve to, and regardless of `allow_networks`. */
export const BLOCKED_NAMES: readonly string[] = ['metadata.google.internal']

/** Names under these domains are blocked as well: they exist only inside a private network. */
export const BLOCKED_SUFFIXES: readonly string[] = ['.local', '.internal']
