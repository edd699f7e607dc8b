/**
 * Counts events by key and minute, such as the reads of an API key, the jobs that an account creates, or the unknown keys that
 * an address sends. The minute of a key begins with its first event.
 */
import type { Clock } from '../clock.ts'

export const WINDOW_MS = 60_000

export interface MinuteCount {
  readonly count: number
  /** The time until the minute ends. */
  readonly leftMs: number
}

interface Window {
  count: number
  readonly endsMs: number
}

export class MinuteCounter {
  readonly #clock: Pick<Clock, 'steadyMs'>
  readonly #mostKeys: number
  /** The windows are in the order in which their minutes began. */
  readonly #windows = new Map<string, Window>()

  /** @param mostKeys how many keys are counted. Beyond that, the key whose minute began first is forgotten */
  constructor(clock: Pick<Clock, 'steadyMs'>, mostKeys = Number.POSITIVE_INFINITY) {
    this.#clock = clock
    this.#mostKeys = mostKeys
  }

  /**
   * Adds to the count, and returns the new count. If a cost above 1 would exceed the limit, nothing is added, but the returned
   * count includes the cost, so it is above the limit.
   */
  add(key: string, cost = 1, limit = Number.POSITIVE_INFINITY): MinuteCount {
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(key)
    if (!window || window.endsMs <= nowMs) {
      window = { count: 0, endsMs: nowMs + WINDOW_MS }
      // A key whose minute begins again moves to the end, because the oldest minutes are forgotten first.
      this.#windows.delete(key)
      this.#windows.set(key, window)
      this.#forget(nowMs)
    }
    const count = window.count + cost
    if (cost === 1 || count <= limit) window.count = count
    return { count, leftMs: window.endsMs - nowMs }
  }

  peek(key: string): MinuteCount {
    const nowMs = this.#clock.steadyMs()
    const window = this.#windows.get(key)
    if (!window || window.endsMs <= nowMs) return { count: 0, leftMs: WINDOW_MS }
    return { count: window.count, leftMs: window.endsMs - nowMs }
  }

  /**
   * Returns how long the key must wait before its next event, in milliseconds; 0 if it need not wait.
   * @param most how many events a minute the key may have
   */
  waitMs(key: string, most: number): number {
    const { count, leftMs } = this.peek(key)
    return count < most ? 0 : leftMs
  }

  #forget(nowMs: number): void {
    for (const [key, { endsMs }] of this.#windows) {
      if (endsMs > nowMs && this.#windows.size <= this.#mostKeys) return
      this.#windows.delete(key)
    }
  }
}
