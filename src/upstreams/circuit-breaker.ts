/**
 * The circuit breaker of a target: whether the target can be called now, from this node's point of view. Jobs wait for a
 * model server whose breaker is open instead of failing.
 *
 * ```
 *            5 jobs failed in a row, Retry-After,
 *            or a job gave up
 *  available ───────────────────────────────────▶ unavailable ◀──┐
 *      ▲                                            │  ▲         │ no answer to GET /models
 *      │ as many jobs at once                       │  └─────────┘ (1, 2, 4, 5, 5 … s, Retry-After)
 *      │ as anybody wants                           ▼  answered
 *  recovering ◀──────────────────────────────────  trial: one job, and not the one that failed last
 *   2, 4, 8 … jobs     the job succeeded
 * ```
 *
 * A trial that fails makes the target unavailable again. A response to `GET /models` proves only that something is there. It
 * does not cost a job a try or the store a write, and never ends the wait by itself.
 */
import type { Clock } from '../clock.ts'
import type { Trouble } from './model-server.ts'

/** How many jobs must fail in a row, without a success in between, before a target is unavailable. */
export const FAILED_JOBS_TO_OPEN = 5
/** The pause before the first check, doubled for each later one. */
export const FIRST_CHECK_MS = 1_000
/** The longest pause between checks: work resumes within ten seconds of a recovery, two checks included. */
export const MAX_CHECK_MS = 4_000
/** The pauses are shortened or extended by up to this fraction, so that nodes do not check together. */
const JITTER = 0.25
/** A recovering target that may have this many concurrent jobs is available. */
const RECOVERED = 256
/** The maximum number of failed jobs that are remembered, the latest ones. */
const REMEMBERED = 256

/** The right to make one call; released with the call's result. */
export type Permit = 'normal' | 'probe'

/** `ignored`: the call was aborted on this side, so it shows nothing about the target. */
export type CallResult = 'success' | 'failure' | 'ignored'

export type HealthPhase = 'available' | 'unavailable' | 'trial' | 'recovering'

interface RememberedFailure {
  /** How many calls had succeeded by that time. */
  readonly successes: number
  /** Whether a call succeeded after the previous job had failed. */
  readonly succeededBetween: boolean
}

export class CircuitBreaker {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onChange: (health: CircuitBreaker) => void
  #phase: HealthPhase = 'available'
  #trouble: Trouble | null = null
  /** Unix time in milliseconds. */
  #unavailableSinceMs: number | null = null
  #availableSinceMs = Number.NEGATIVE_INFINITY
  /** On the steady clock; Retry-After may move it on. */
  #checkDueMs = 0
  #checks = 0
  #trialRunning = false
  #allowance = Number.POSITIVE_INFINITY
  /** Successes since the allowance grew. */
  #window = 0
  /** Jobs that failed since the last success, latest last. */
  readonly #failedInRow = new Set<string>()
  #successes = 0
  /** By job, at its last failure. */
  readonly #failures = new Map<string, RememberedFailure>()

  /** @param onChange called after each change of phase or allowance */
  constructor(clock: Clock, random: () => number, onChange: (health: CircuitBreaker) => void) {
    this.#clock = clock
    this.#random = random
    this.#onChange = onChange
  }

  get phase(): HealthPhase {
    return this.#phase
  }

  /** How many concurrent jobs it may have; no further ones during a trial. */
  get allowance(): number {
    return this.#trialRunning ? 0 : this.#allowance
  }

  /** Why it was last unavailable; null while it is available. */
  get trouble(): Trouble | null {
    return this.#trouble
  }

  /** Since when no call has succeeded, Unix time in milliseconds; null while it is available or recovering. */
  get unavailableSinceMs(): number | null {
    return this.#unavailableSinceMs
  }

  /** When it last became available, Unix time in milliseconds. */
  get availableSinceMs(): number {
    return this.#availableSinceMs
  }

  /** How many jobs have failed since the last success. */
  get consecutiveFailures(): number {
    return this.#failedInRow.size
  }

  /** Jobs that failed since the last success, the last one last: a trial is for another one. */
  get failedJobs(): readonly string[] {
    return [...this.#failedInRow]
  }

  /** How long until the next check, in milliseconds. */
  get untilCheckMs(): number {
    return Math.max(0, this.#checkDueMs - this.#clock.steadyMs())
  }

  /** When it will be checked, Unix time in milliseconds; null unless it is unavailable. */
  get openUntilMs(): number | null {
    return this.#phase === 'unavailable' ? this.#clock.nowMs() + this.untilCheckMs : null
  }

  /** Whether `acquire` would return null. */
  get isOpen(): boolean {
    return this.#phase === 'unavailable' || (this.#phase === 'trial' && this.#trialRunning)
  }

  /**
   * Returns a permit for a call that is made now; null if none is available. Each permit is released exactly once. A call that
   * is made nevertheless releases a `normal` permit.
   */
  acquire(): Permit | null {
    if (this.#phase === 'available') return 'normal'
    if (this.isOpen) return null
    if (this.#phase !== 'trial') return 'normal'
    this.#trialRunning = true
    this.#onChange(this)
    return 'probe'
  }

  /** @param retryAfterMs the delay that the target asked for, already bounded by the caller @param trouble why the call failed */
  release(
    permit: Permit,
    result: CallResult,
    retryAfterMs: number | null,
    jobId: string,
    trouble: Trouble,
  ): void {
    if (permit === 'probe') this.#trialRunning = false
    if (result === 'success') this.#succeeded(permit, jobId)
    else if (result === 'failure') this.#failed(permit, retryAfterMs, jobId, trouble)
    // No other job could start during the trial, even if another call has ended the wait meanwhile.
    if (permit === 'probe') this.#onChange(this)
  }

  /**
   * Whether another job succeeded between the last two failures of this one, so that it may be the cause. False for a job
   * whose previous failure this node has not seen.
   */
  succeededBetweenFailuresOf(jobId: string): boolean {
    return this.#failures.get(jobId)?.succeededBetween ?? false
  }

  /** All tries of a job have failed: the target is unavailable, unless calls for others succeeded meanwhile. */
  giveUp(trouble: Trouble, successesBefore: number): void {
    if (this.#successes > successesBefore) return
    if (this.#phase === 'available' || this.#phase === 'recovering') this.#open(trouble, 0)
  }

  /** How many calls have succeeded. */
  get successes(): number {
    return this.#successes
  }

  /** A check has ended. @param trouble null if something responded */
  checked(trouble: Trouble | null): void {
    if (this.#phase !== 'unavailable') return
    if (trouble === null) {
      this.#phase = 'trial'
      this.#allowance = 1
      this.#onChange(this)
      return
    }
    this.#trouble = trouble
    this.#planCheck()
  }

  #succeeded(permit: Permit, jobId: string): void {
    this.#successes += 1
    if (this.#failedInRow.size > 0) this.#failedInRow.clear()
    if (this.#failures.size > 0) this.#failures.delete(jobId)
    if (this.#phase === 'available') return
    if (this.#phase === 'recovering') this.#grow()
    // A call that started before the target's Retry-After shows nothing about its current state.
    else if (permit === 'probe' || this.untilCheckMs <= MAX_CHECK_MS * (1 + JITTER)) this.#recover()
  }

  #failed(permit: Permit, retryAfterMs: number | null, jobId: string, trouble: Trouble): void {
    this.#remember(jobId)
    const isProbe = permit === 'probe'
    const opens = isProbe || retryAfterMs !== null || this.#failedInRow.size >= FAILED_JOBS_TO_OPEN
    // Calls that were in progress when it became unavailable fail one after the other. They change nothing.
    if (opens && (isProbe || this.#phase === 'available' || this.#phase === 'recovering')) {
      this.#open(trouble, retryAfterMs ?? 0)
    } else if (retryAfterMs !== null) this.#wait(retryAfterMs)
  }

  #open(trouble: Trouble, retryAfterMs: number): void {
    // A trial that fails continues the same wait, and its backoff.
    if (this.#phase !== 'trial') {
      this.#unavailableSinceMs = this.#clock.nowMs()
      this.#checks = 0
    }
    this.#phase = 'unavailable'
    this.#allowance = 0
    this.#trouble = trouble
    this.#planCheck()
    this.#wait(retryAfterMs)
    this.#onChange(this)
  }

  #planCheck(): void {
    const pauseMs = Math.min(FIRST_CHECK_MS * 2 ** this.#checks, MAX_CHECK_MS)
    this.#checks += 1
    this.#checkDueMs = this.#clock.steadyMs() + pauseMs * (1 - JITTER + 2 * JITTER * this.#random())
  }

  #wait(retryAfterMs: number): void {
    this.#checkDueMs = Math.max(this.#checkDueMs, this.#clock.steadyMs() + retryAfterMs)
  }

  #recover(): void {
    this.#phase = 'recovering'
    this.#unavailableSinceMs = null
    this.#availableSinceMs = this.#clock.nowMs()
    this.#allowance = 2
    this.#window = 0
    this.#onChange(this)
  }

  /** Twice as many after as many successes as there may be jobs at once. */
  #grow(): void {
    this.#window += 1
    if (this.#window < this.#allowance) return
    this.#window = 0
    this.#allowance *= 2
    if (this.#allowance > RECOVERED) {
      this.#phase = 'available'
      this.#allowance = Number.POSITIVE_INFINITY
      this.#trouble = null
    }
    this.#onChange(this)
  }

  #remember(jobId: string): void {
    const before = this.#failures.get(jobId)
    const succeededBetween = before !== undefined && before.successes < this.#successes
    this.#failedInRow.delete(jobId)
    this.#failedInRow.add(jobId)
    this.#failures.delete(jobId)
    this.#failures.set(jobId, { successes: this.#successes, succeededBetween })
    dropOldest(this.#failedInRow)
    dropOldest(this.#failures)
  }
}

function dropOldest(kept: Set<string> | Map<string, unknown>): void {
  if (kept.size <= REMEMBERED) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
