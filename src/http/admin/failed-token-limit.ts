/** Counts the wrong admin tokens from each address. After too many, the address must wait, even if its next token is right. */
import type { Clock } from '../../clock.ts'
import { networkOf } from '../network-of.ts'

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
