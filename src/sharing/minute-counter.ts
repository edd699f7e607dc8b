/** Counts events by key and minute. The minute of a key begins with its first event. */
import type { Clock } from '../clock.ts'

const WINDOW_MS = 60_000
/** With more keys than this, those whose minute has ended are dropped. */
const MAX_KEYS = 10_000

export interface MinuteCount {
  readonly count: number
  /** The time until the minute ends, in milliseconds. */
  readonly leftMs: number
}

interface Window {
  count: number
  readonly endsMs: number
}

/** Counts what each key does in its current minute, such as the reads of an API key or the jobs that an account creates. */
export class MinuteCounter {
  readonly #clock: Pick<Clock, 'steadyMs'>
  readonly #windows = new Map<string, Window>()

  constructor(clock: Pick<Clock, 'steadyMs'>) {
    this.#clock = clock
  }

  /**
   * Adds to the count, and returns the new count. If a cost above 1 would exceed the limit, nothing is added, but the returned
   * count includes it and is above the limit.
   */
  add(key: string, cost = 1, limit = Number.POSITIVE_INFINITY): MinuteCount {
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(key)
    if (!window || window.endsMs <= nowMs) {
      if (this.#windows.size >= MAX_KEYS) this.#dropEnded(nowMs)
      window = { count: 0, endsMs: nowMs + WINDOW_MS }
      this.#windows.set(key, window)
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

  #dropEnded(nowMs: number): void {
    for (const [key, { endsMs }] of this.#windows) if (endsMs <= nowMs) this.#windows.delete(key)
  }
}
