/**
 * A circuit breaker: whether a target can be called now, from this node's point of view. Each target has one for all accounts,
 * and one for each account whose calls have failed there (target-health.ts). Jobs wait while it is open instead of failing.
 *
 * ```
 *            5 jobs failed in a row, Retry-After,
 *            or a job gave up
 *  available ───────────────────────────────────▶ unavailable ◀──┐
 *      ▲                                            │  ▲         │ no answer to GET /models
 *      │                                            │  └─────────┘ (1, 2, 4, 4 … s, Retry-After)
 *      │ the job succeeded                          ▼  answered
 *      └──────────────────────────────────────────  trial: one job, and not the one that failed last
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
/** The maximum number of failed jobs that are remembered, the latest ones. */
export const REMEMBERED = 64

export type HealthPhase = 'available' | 'unavailable' | 'trial'

export class CircuitBreaker {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onChange: () => void
  // Only this class writes these four.
  phase: HealthPhase = 'available'
  /** Why it is unavailable; null while it is available. */
  trouble: Trouble | null = null
  /** Since when no call has succeeded, Unix time in milliseconds; null while it is available. */
  unavailableSinceMs: number | null = null
  /** When it last became available, Unix time in milliseconds. */
  availableSinceMs = Number.NEGATIVE_INFINITY
  /** On the steady clock; Retry-After may move it on. */
  #checkDueMs = 0
  /** When the last Retry-After is over, on the steady clock. */
  #retryAtMs = Number.NEGATIVE_INFINITY
  #checks = 0
  /** The job whose call is the trial. */
  #trialJob: string | null = null
  /** Jobs that failed since the last success, latest last. */
  readonly #failedInRow = new Set<string>()

  /** @param onChange called after each change of phase or allowance */
  constructor(clock: Clock, random: () => number, onChange: () => void) {
    this.#clock = clock
    this.#random = random
    this.#onChange = onChange
  }

  /** How many more jobs may be started; no further ones during a trial. */
  get allowance(): number {
    if (this.phase === 'available') return Number.POSITIVE_INFINITY
    return this.phase === 'trial' && this.#trialJob === null ? 1 : 0
  }

  /** Jobs that failed since the last success, the last one last: a trial is for another one. */
  get failedJobs(): readonly string[] {
    return [...this.#failedInRow]
  }

  /** How long until the next check, in milliseconds; 0 unless it is unavailable. */
  get untilCheckMs(): number {
    return this.phase === 'unavailable' ? Math.max(0, this.#checkDueMs - this.#clock.steadyMs()) : 0
  }

  /** When it will be checked, Unix time in milliseconds; null unless it is unavailable. */
  get openUntilMs(): number | null {
    return this.phase === 'unavailable' ? this.#clock.nowMs() + this.untilCheckMs : null
  }

  /** Whether no call may begin now. */
  get isOpen(): boolean {
    return this.phase !== 'available' && this.allowance === 0
  }

  isTrialOf(jobId: string): boolean {
    return this.#trialJob === jobId
  }

  /** A call of the job begins; it may be one that is made although the breaker is open. */
  began(jobId: string): void {
    if (this.phase !== 'trial' || this.#trialJob !== null) return
    this.#trialJob = jobId
    this.#onChange()
  }

  /** A call has succeeded. */
  succeeded(jobId: string): void {
    if (this.#failedInRow.size > 0) this.#failedInRow.clear()
    if (this.phase === 'available') return
    // A call that started before the target's Retry-After shows nothing about its current state.
    if (this.#trialJob !== jobId && this.#clock.steadyMs() < this.#retryAtMs) return
    this.phase = 'available'
    this.#trialJob = null
    this.trouble = null
    this.unavailableSinceMs = null
    this.availableSinceMs = this.#clock.nowMs()
    this.#onChange()
  }

  /** A call was aborted on this side, so it shows nothing about the target. */
  ignored(jobId: string): void {
    if (this.#trialJob !== jobId) return
    this.#trialJob = null
    this.#onChange()
  }

  /** Remembers that a job failed, without a consequence. */
  remember(jobId: string): void {
    this.#failedInRow.delete(jobId)
    this.#failedInRow.add(jobId)
    dropOldest(this.#failedInRow, REMEMBERED)
  }

  /**
   * A call has failed. Returns whether this opened the breaker. Calls that were in progress when it became unavailable fail
   * one after the other; they change nothing but the end of Retry-After.
   * @param retryAfterMs the delay that the target asked for, already bounded by the caller
   * @param trouble why the call failed
   */
  failed(jobId: string, retryAfterMs: number | null, trouble: Trouble): boolean {
    this.remember(jobId)
    const isEnough = retryAfterMs !== null || this.#failedInRow.size >= FAILED_JOBS_TO_OPEN
    if (this.#trialJob === jobId || (isEnough && this.phase === 'available')) {
      this.open(trouble, retryAfterMs ?? 0)
      return true
    }
    if (retryAfterMs !== null) this.#wait(retryAfterMs)
    return false
  }

  /** A check has ended. @param trouble null if something responded */
  checked(trouble: Trouble | null): void {
    if (this.phase !== 'unavailable') return
    if (trouble === null) {
      this.phase = 'trial'
      this.#onChange()
      return
    }
    this.trouble = trouble
    this.#planCheck()
  }

  /** @param retryAfterMs how long at least it must not be called */
  open(trouble: Trouble, retryAfterMs: number): void {
    // A trial that fails continues the same wait, and its backoff.
    if (this.phase === 'available') {
      this.unavailableSinceMs = this.#clock.nowMs()
      this.#checks = 0
    }
    this.phase = 'unavailable'
    this.#trialJob = null
    this.trouble = trouble
    this.#wait(retryAfterMs)
    this.#planCheck()
    this.#onChange()
  }

  #planCheck(): void {
    const pauseMs = Math.min(FIRST_CHECK_MS * 2 ** this.#checks, MAX_CHECK_MS)
    this.#checks += 1
    const jitter = 1 - JITTER + 2 * JITTER * this.#random()
    this.#checkDueMs = Math.max(this.#retryAtMs, this.#clock.steadyMs() + pauseMs * jitter)
  }

  #wait(retryAfterMs: number): void {
    this.#retryAtMs = Math.max(this.#retryAtMs, this.#clock.steadyMs() + retryAfterMs)
    this.#checkDueMs = Math.max(this.#checkDueMs, this.#retryAtMs)
  }
}

/** Bounds what is remembered: forgets what was added first. */
export function dropOldest(kept: Set<string> | Map<string, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
