/**
 * Where callbacks may not go: the ranges and names, as data. address-guard.ts applies them.
 *
 * The ranges are those of the special-purpose address registries of IANA that are private, local, reserved or meant for
 * documents and tests, and the addresses at which clouds serve their machines' secrets.
 */

/** IPv4 is open but for these. */
export const REFUSED_IPV4: readonly string[] = [
  '0.0.0.0/8', // this host on this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared by carriers
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // Azure's platform
  '169.254.0.0/16', // link-local, where clouds serve metadata
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments
  '192.0.2.0/24', // documents
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // automatic multicast tunnels
  '192.88.99.0/24', // relays from 6to4, withdrawn
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documents
  '203.0.113.0/24', // documents
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
]

/** IPv6 is closed but for this, the only part that is assigned to hosts of the public network. */
export const OPEN_IPV6 = '2000::/3'

/** What of that part is closed again. */
export const REFUSED_IPV6: readonly string[] = [
  '2001::/23', // protocol assignments, Teredo among them
  '2001:db8::/32', // documents
  '2002::/16', // 6to4, which carries any IPv4 address inside
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documents
]

/** Refused whatever `allow_networks` says: metadata servers hand out the credentials of the machine. */
export const ALWAYS_REFUSED: readonly string[] = [
  '169.254.169.254', // AWS, Azure, Google, and most others
  'fd00:ec2::254', // AWS
  '168.63.129.16', // Azure's platform
  '100.100.100.200', // Alibaba
  '192.0.0.192', // Oracle
]

/** Names of this very host. They are open when `allow_networks` opens loopback. */
export const LOCALHOST = 'localhost'

/** Names refused whatever they resolve to, and whatever `allow_networks` says. */
export const REFUSED_NAMES: readonly string[] = ['metadata.google.internal']

/** Names under these are refused likewise: they exist only inside of a private network. */
export const REFUSED_SUFFIXES: readonly string[] = ['.local', '.internal']
