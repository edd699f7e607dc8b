/**
 * Spreads the reads of many waits over the minute, so that they stay within what the tier allows. The server counts reads
 * for each key in windows of a minute and says with each answer what is left.
 */
import { type Clock, pause } from './clock.ts'

const WINDOW_MS = 60_000

interface Window {
  readonly limit: number
  left: number
  /** When it is known to have begun; what was sent before says nothing of it. */
  beganMs: number
  endsMs: number
}

/** A read under way. */
export interface Reading {
  /** What the headers of its answer say, if they are there. */
  learn(headers: Headers): void
  end(): void
}

export class ReadBudget {
  readonly #clock: Clock
  /** Null until the server has said what is left. */
  #window: Window | null = null
  #nextMs = 0
  #underWay = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** To be called as a read is sent. */
  begin(): Reading {
    const sentMs = this.#clock.steadyMs()
    this.#underWay += 1
    return {
      learn: (headers) => {
        const [limit, left, resetS] = ['limit', 'remaining', 'reset'].map((name) => {
          const value = headers.get(`ratelimit-${name}`)
          return value === null ? Number.NaN : Number(value)
        })
        if (limit && left !== undefined && resetS !== undefined && left >= 0 && resetS >= 0) {
          // The others under way are counted by the server already, or will be.
          this.learn(limit, left - (this.#underWay - 1), resetS, sentMs)
        }
      },
      end: () => {
        this.#underWay -= 1
      },
    }
  }

  /**
   * What the server said: reads a minute, how many are left, and in how many seconds the next minute begins.
   *
   * @param sentMs when it was asked, by the steady clock
   */
  learn(limit: number, left: number, resetS: number, sentMs: number): void {
    const beganMs = this.#window?.beganMs ?? 0
    if (sentMs < beganMs) return
    this.#window = { limit, left, beganMs, endsMs: this.#clock.steadyMs() + resetS * 1000 }
  }

  /** Resolves when the next read may be made; rejects with the signal's reason. */
  async turn(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const pauseMs = this.#take()
      if (pauseMs === 0) return
      await pause(pauseMs, this.#clock, signal)
    }
  }

  /** Takes a read and returns 0, or returns the milliseconds after which to ask again. */
  #take(): number {
    const nowMs = this.#clock.steadyMs()
    const window = this.#window
    if (window === null) return 0
    if (window.endsMs <= nowMs) {
      window.left = window.limit
      window.beganMs = nowMs
      window.endsMs = nowMs + WINDOW_MS
    }
    if (window.left <= 0) return window.endsMs - nowMs
    if (nowMs < this.#nextMs) return this.#nextMs - nowMs
    this.#nextMs = nowMs + (window.endsMs - nowMs) / window.left
    window.left -= 1
    return 0
  }
}
