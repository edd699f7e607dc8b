/** Counts the wrong admin tokens from each address. After too many, the address must wait, even if its next token is right. */
import { isIPv6 } from 'node:net'
import type { Clock } from '../../clock.ts'

/** Wrong tokens that an address may send per window. */
export const MAX_FAILURES = 10
export const WINDOW_MS = 60_000
/** Addresses that are counted at the same time. Beyond this, the oldest window is dropped. */
const MAX_ADDRESSES = 10_000

interface Window {
  failures: number
  readonly endsMs: number
}

export class FailedTokenLimit {
  readonly #clock: Clock
  readonly #windows = new Map<string, Window>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How long the address must wait; 0 if it may try now. */
  waitMs(address: string): number {
    const window = this.#windows.get(networkOf(address))
    if (!window || window.failures < MAX_FAILURES) return 0
    return Math.max(0, window.endsMs - this.#clock.steadyMs())
  }

  count(address: string): void {
    const network = networkOf(address)
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(network)
    if (!window || window.endsMs <= nowMs) {
      window = { failures: 0, endsMs: nowMs + WINDOW_MS }
      // Inserted again, because the map's insertion order decides which window is dropped first.
      this.#windows.delete(network)
      this.#windows.set(network, window)
    }
    window.failures += 1
    const [oldest] = this.#windows.keys()
    if (this.#windows.size > MAX_ADDRESSES && oldest !== undefined) this.#windows.delete(oldest)
  }
}

/** IPv6 hosts usually own a whole /64, so it counts as one address. IPv4-mapped IPv6 addresses count as IPv4. */
function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped?.[1] !== undefined) return mapped[1]
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const groups = head.split(':').filter((group) => group !== '')
  const rest = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = Array<string>(Math.max(0, 8 - groups.length - rest.length)).fill('0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}
