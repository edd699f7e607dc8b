/**
 * The addresses of the callback receivers. Each host is an address of the loopback network, and all use one port. Linux
 * accepts connections to that whole network without configuration.
 */
export const HOSTS = 100

/** @param host from 0 to `HOSTS` - 1 */
export function addressOf(host: number): string {
  return `127.0.1.${host + 1}`
}

export function urlOf(host: number, port: number): string {
  return `http://${addressOf(host)}:${port}/parley`
}

/** Distributes this many hosts that never answer evenly among the others. */
export function blackHoles(count: number): ReadonlySet<number> {
  return new Set(Array.from({ length: count }, (_, index) => Math.floor((index * HOSTS) / count)))
}
