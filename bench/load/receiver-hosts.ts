/**
 * Where the receivers of callbacks are: each host is an address of the loopback network, all of them on one port. Linux
 * answers for that whole network by default.
 */
export const HOSTS = 100

/** @param host from 0 up to but not including `HOSTS` */
export function addressOf(host: number): string {
  return `127.0.1.${host + 1}`
}

export function urlOf(host: number, port: number): string {
  return `http://${addressOf(host)}:${port}/parley`
}

/** So many hosts that never answer, evenly among the others. */
export function blackHoles(count: number): ReadonlySet<number> {
  return new Set(Array.from({ length: count }, (_, index) => Math.floor((index * HOSTS) / count)))
}
