/**
 * Delays the reads of all waits so that they do not exceed the tier's rate limit. The server counts the reads of each key in
 * windows of a minute, and reports the remaining reads in the headers of each response.
 */
import { type Clock, pause } from './clock.ts'

const WINDOW_MS = 60_000

interface Window {
  readonly limit: number
  left: number
  /** Responses to requests that were sent before the window started are about the previous window. */
  startMs: number
  endsMs: number
}

export interface ReadInProgress {
  /** Updates the budget from the rate limit headers of the response, if it has them. */
  learn(headers: Headers): void
  end(): void
}

export class ReadBudget {
  readonly #clock: Clock
  /** Null until the server has reported the remaining reads. */
  #window: Window | null = null
  #nextMs = 0
  #readsInProgress = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Must be called when a read is sent. */
  begin(): ReadInProgress {
    const sentMs = this.#clock.steadyMs()
    this.#readsInProgress += 1
    return {
      learn: (headers) => {
        const [limit, left, resetS] = ['limit', 'remaining', 'reset'].map((name) => {
          const value = headers.get(`ratelimit-${name}`)
          return value === null ? Number.NaN : Number(value)
        })
        if (limit && left !== undefined && resetS !== undefined && left >= 0 && resetS >= 0) {
          // The server has counted the other reads in progress, or will count them.
          this.learn(limit, left - (this.#readsInProgress - 1), resetS, sentMs)
        }
      },
      end: () => {
        this.#readsInProgress -= 1
      },
    }
  }

  /**
   * Updates the budget with what the server reported: the limit per minute, the remaining reads, and in how many seconds the
   * next window starts.
   *
   * @param sentMs when the request was sent, by the clock that never goes back
   */
  learn(limit: number, left: number, resetS: number, sentMs: number): void {
    const startMs = this.#window?.startMs ?? 0
    if (sentMs < startMs) return
    this.#window = { limit, left, startMs, endsMs: this.#clock.steadyMs() + resetS * 1000 }
  }

  /** Resolves when the next read may be sent. Rejects with the signal's reason. */
  async turn(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const pauseMs = this.#take()
      if (pauseMs === 0) return
      await pause(pauseMs, this.#clock, signal)
    }
  }

  /** Takes a read and returns 0, or returns after how many milliseconds to try again. */
  #take(): number {
    const nowMs = this.#clock.steadyMs()
    const window = this.#window
    if (window === null) return 0
    if (window.endsMs <= nowMs) {
      window.left = window.limit
      window.startMs = nowMs
      window.endsMs = nowMs + WINDOW_MS
    }
    if (window.left <= 0) return window.endsMs - nowMs
    // A timer cannot wait for less than a millisecond.
    if (this.#nextMs - nowMs >= 1) return this.#nextMs - nowMs
    this.#nextMs = nowMs + (window.endsMs - nowMs) / window.left
    window.left -= 1
    return 0
  }
}
