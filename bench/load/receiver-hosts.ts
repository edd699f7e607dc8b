/**
 * Gives each callback receiver an address of the loopback network. All use one port. Linux accepts connections to that whole
 * network without configuration.
 */
export const HOSTS = 100

/** @param host from 0 to `HOSTS` - 1 */
export function addressOf(host: number): string {
  return `127.0.1.${host + 1}`
}

export function urlOf(host: number, port: number): string {
  return `http://${addressOf(host)}:${port}/parley`
}

/** Returns which hosts never answer. They are spread evenly among the others. */
export function blackHoles(count: number): ReadonlySet<number> {
  return new Set(Array.from({ length: count }, (_, index) => Math.floor((index * HOSTS) / count)))
}
