/**
 * The circuit breaker for `jobs.patience_seconds: 0`, where jobs do not wait for model servers: stops calls to a target that
 * keeps failing, for a time.
 *
 * It opens after FAILURES_TO_OPEN failures in a row. After its time it is half-open and permits one call, the probe: success
 * closes it, failure opens it for twice as long. A target that sends Retry-After opens it at once for that long. If the
 * breakers of all targets are open, the router makes a call anyway (permit "forced"), because a call that may fail is better
 * than a failure without a call.
 */
import type { Clock } from '../clock.ts'
import type { Breaker, CallResult, Permit } from './circuit-breaker.ts'

export const FAILURES_TO_OPEN = 5
export const FIRST_OPEN_MS = 5_000
export const MAX_OPEN_MS = 60_000

export class TimedCircuitBreaker implements Breaker {
  readonly #clock: Clock
  #consecutiveFailures = 0
  /** How many times in a row it has opened: each time doubles the next. */
  #openings = 0
  /** When it becomes half-open, on the steady clock; null while it is closed. */
  #openUntil: number | null = null
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get consecutiveFailures(): number {
    return this.#consecutiveFailures
  }

  /** When it becomes half-open, Unix time in milliseconds; null if it is closed or half-open. */
  get openUntilMs(): number | null {
    if (this.#openUntil === null) return null
    const left = this.#openUntil - this.#clock.steadyMs()
    return left > 0 ? this.#clock.nowMs() + left : null
  }

  /** Whether it does not permit a call now. */
  get isOpen(): boolean {
    if (this.#openUntil === null) return false
    return this.#probing || this.#clock.steadyMs() < this.#openUntil
  }

  /** A permit for a call to be made now; null if the breaker is open. Each permit is released exactly once. */
  acquire(): Permit | null {
    if (this.#openUntil === null) return 'normal'
    if (this.isOpen) return null
    this.#probing = true
    return 'probe'
  }

  /** Releases a permit. `retryAfterMs` is the delay that the target asked for, already bounded by the caller. */
  release(permit: Permit, result: CallResult, retryAfterMs: number | null): void {
    if (permit === 'probe') this.#probing = false
    if (result === 'ignored') return
    if (result === 'success') {
      this.#consecutiveFailures = 0
      this.#openings = 0
      this.#openUntil = null
      return
    }
    this.#consecutiveFailures++
    // Calls that were in progress when the breaker opened fail one after the other; only the probe may extend the time.
    const mayOpen = permit === 'probe' || this.#openUntil === null
    if (mayOpen && this.#consecutiveFailures >= FAILURES_TO_OPEN) {
      this.#openFor(Math.min(FIRST_OPEN_MS * 2 ** this.#openings, MAX_OPEN_MS))
      this.#openings++
    }
    if (retryAfterMs !== null) this.#openFor(retryAfterMs)
  }

  #openFor(ms: number): void {
    this.#openUntil = Math.max(this.#openUntil ?? 0, this.#clock.steadyMs() + ms)
  }
}
