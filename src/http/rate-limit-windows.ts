/** How many reads each key has made in its current minute on this node: the store behind the rate-limit plugin. */
import type { Clock } from '../clock.ts'

export const WINDOW_MS = 60_000
/** Keys counted at once; beyond that the windows that have ended are dropped. */
const KEYS = 10_000

interface Window {
  reads: number
  readonly endsMs: number
}

export class RateLimitWindows {
  readonly #clock: Clock
  readonly #windows = new Map<string, Window>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts a read; returns how many there were in the window, this one included, and when it ends. */
  count(keyId: string): { readonly reads: number; readonly leftMs: number } {
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(keyId)
    if (!window || window.endsMs <= nowMs) {
      if (this.#windows.size >= KEYS) this.#dropEnded(nowMs)
      window = { reads: 0, endsMs: nowMs + WINDOW_MS }
      this.#windows.set(keyId, window)
    }
    window.reads += 1
    return { reads: window.reads, leftMs: window.endsMs - nowMs }
  }

  /** The same without counting. */
  peek(keyId: string): { readonly reads: number; readonly leftMs: number } {
    const nowMs = this.#clock.steadyMs()
    const window = this.#windows.get(keyId)
    if (!window || window.endsMs <= nowMs) return { reads: 0, leftMs: WINDOW_MS }
    return { reads: window.reads, leftMs: window.endsMs - nowMs }
  }

  #dropEnded(nowMs: number): void {
    for (const [keyId, { endsMs }] of this.#windows) if (endsMs <= nowMs) this.#windows.delete(keyId)
  }
}
