/**
 * A breaker: remembers how one target fared lately, and says whether to skip it for a while.
 *
 * A target that fails FAILURES_TO_SKIP times in a row is skipped. When the time is over a single call probes it: success
 * ends the skipping, failure doubles it. A target that asked for patience (Retry-After) is skipped until then at once.
 * The breaker only advises: when every target is to be skipped, the router calls nevertheless ("forced"), because a try
 * is better than a failure that was not even tried.
 */
import type { Clock } from '../clock.ts'

export const FAILURES_TO_SKIP = 5
export const FIRST_SKIP_MS = 5_000
export const LONGEST_SKIP_MS = 60_000

/** Under what title a call is made; handed back with how it ended. */
export type Permit = 'normal' | 'probe' | 'forced'

/** `undecided`: the call was ended by us, and says nothing about the target. */
export type CallResult = 'well' | 'badly' | 'undecided'

export class CircuitBreaker {
  readonly #clock: Clock
  #failuresInRow = 0
  /** How often in a row it has been skipped: each time doubles the next. */
  #skips = 0
  /** On the steady clock; null while the target is in use. */
  #skippedUntil: number | null = null
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get failuresInRow(): number {
    return this.#failuresInRow
  }

  /** Wall-clock time at which a probe may be made; null when the target is not skipped, or a probe is due. */
  get skippedUntilMs(): number | null {
    if (this.#skippedUntil === null) return null
    const left = this.#skippedUntil - this.#clock.steadyMs()
    return left > 0 ? this.#clock.nowMs() + left : null
  }

  /** Whether the target is to be skipped now. Asking changes nothing. */
  skips(): boolean {
    if (this.#skippedUntil === null) return false
    return this.#probing || this.#clock.steadyMs() < this.#skippedUntil
  }

  /** The pass for a call to be made now, null where the target is to be skipped. Each pass is handed back once. */
  admit(): Permit | null {
    if (this.#skippedUntil === null) return 'normal'
    if (this.skips()) return null
    this.#probing = true
    return 'probe'
  }

  /** Hands a pass back. `retryAfterMs` is what the target asked for, already bounded by the caller. */
  handBack(pass: Permit, fared: CallResult, retryAfterMs: number | null): void {
    if (pass === 'probe') this.#probing = false
    if (fared === 'undecided') return
    if (fared === 'well') {
      this.#failuresInRow = 0
      this.#skips = 0
      this.#skippedUntil = null
      return
    }
    this.#failuresInRow++
    // Calls that were under way when the skipping began fail one after the other; only the probe may prolong it.
    const prolong = pass === 'probe' || this.#skippedUntil === null
    if (prolong && this.#failuresInRow >= FAILURES_TO_SKIP) {
      this.#skipFor(Math.min(FIRST_SKIP_MS * 2 ** this.#skips, LONGEST_SKIP_MS))
      this.#skips++
    }
    if (retryAfterMs !== null) this.#skipFor(retryAfterMs)
  }

  #skipFor(ms: number): void {
    this.#skippedUntil = Math.max(this.#skippedUntil ?? 0, this.#clock.steadyMs() + ms)
  }
}
