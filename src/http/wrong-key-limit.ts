/**
 * Counts the wrong API keys and admin tokens that each address sends. After too many in a minute, the address must wait until
 * the minute is over.
 */
import type { Clock } from '../clock.ts'
import { networkOf } from './network-of.ts'

export const WINDOW_MS = 60_000
/** The maximum number of addresses counted at once. Beyond it, the address whose minute began first is forgotten. */
const MAX_ADDRESSES = 10_000

interface Window {
  failures: number
  readonly endsMs: number
}

export class WrongKeyLimit {
  readonly #clock: Pick<Clock, 'steadyMs'>
  readonly #maxFailures: number
  readonly #windows = new Map<string, Window>()

  /** @param maxFailures how many wrong guesses an address has per minute */
  constructor(clock: Pick<Clock, 'steadyMs'>, maxFailures: number) {
    this.#clock = clock
    this.#maxFailures = maxFailures
  }

  /** How long the address must wait, in milliseconds; 0 if it may try now. */
  waitMs(address: string): number {
    if (this.#windows.size === 0) return 0
    const window = this.#windows.get(networkOf(address))
    if (!window || window.failures < this.#maxFailures) return 0
    return Math.max(0, window.endsMs - this.#clock.steadyMs())
  }

  count(address: string): void {
    const network = networkOf(address)
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(network)
    if (!window || window.endsMs <= nowMs) {
      window = { failures: 0, endsMs: nowMs + WINDOW_MS }
      // The map drops its first entry when it is full, so a window that starts again moves to the end.
      this.#windows.delete(network)
      this.#windows.set(network, window)
    }
    window.failures += 1
    const [oldest] = this.#windows.keys()
    if (this.#windows.size > MAX_ADDRESSES && oldest !== undefined) this.#windows.delete(oldest)
  }
}
