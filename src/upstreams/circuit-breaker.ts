/**
 * A circuit breaker: decides whether this node can call a target now. Each target has one for all accounts, and one for each
 * account whose calls have failed there (target-health.ts). While it is open, jobs wait instead of failing.
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
 * A trial that fails makes the target unavailable again. A response to `GET /models` only proves that something responds. It
 * costs no try of a job and no write to the store, and never ends the wait by itself.
 */
import type { Clock } from '../clock.ts'
import type { Trouble } from './model-server.ts'

/** How many jobs must fail in a row before a target is unavailable. */
export const FAILED_JOBS_TO_OPEN = 5
/** The pause before the first check, doubled for each later one. */
export const FIRST_CHECK_MS = 1_000
/** The longest pause between checks: with two checks, work resumes within ten seconds of a recovery. */
export const MAX_CHECK_MS = 4_000
/** Pauses are up to this fraction shorter or longer, so that nodes do not check together. */
const JITTER = 0.25
/** How many failed jobs are remembered; the oldest are dropped. */
export const REMEMBERED = 64

export type HealthPhase = 'available' | 'unavailable' | 'trial'

export class CircuitBreaker {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onChange: () => void
  // Only this class writes the next four fields.
  phase: HealthPhase = 'available'
  /** Why it is unavailable; null while it is available. */
  trouble: Trouble | null = null
  /** Since when no call has succeeded, Unix time in milliseconds; null while it is available. */
  unavailableSinceMs: number | null = null
  /** When it last became available, Unix time in milliseconds. */
  availableSinceMs = Number.NEGATIVE_INFINITY
  /** When the next check is due (steady clock); Retry-After may delay it. */
  #checkDueMs = 0
  /** The end of the last Retry-After (steady clock). */
  #retryAtMs = Number.NEGATIVE_INFINITY
  #checks = 0
  /** The job whose call is the trial. */
  #trialJob: string | null = null
  /** When the trial began to wait for a job (steady clock). */
  #trialSinceMs = 0
  /** Jobs that failed since the last success, latest last. */
  readonly #failedInRow = new Set<string>()

  /** @param onChange called after each change of phase or allowance */
  constructor(clock: Clock, random: () => number, onChange: () => void) {
    this.#clock = clock
    this.#random = random
    this.#onChange = onChange
  }

  /** How many more jobs may start; 0 while a trial is in progress. */
  get allowance(): number {
    if (this.phase === 'available') return Number.POSITIVE_INFINITY
    return this.phase === 'trial' && this.#trialJob === null ? 1 : 0
  }

  /** Jobs that failed since the last success, latest last. A trial should go to another job. */
  get failedJobs(): readonly string[] {
    return [...this.#failedInRow]
  }

  /** How long until the next check, in milliseconds; 0 unless it is unavailable. */
  get untilCheckMs(): number {
    return this.phase === 'unavailable' ? Math.max(0, this.#checkDueMs - this.#clock.steadyMs()) : 0
  }

  /** How long the trial has waited for a job, in milliseconds; 0 if it does not. */
  get untriedMs(): number {
    const isUntried = this.phase === 'trial' && this.#trialJob === null
    return isUntried ? this.#clock.steadyMs() - this.#trialSinceMs : 0
  }

  /** When it will be checked, Unix time in milliseconds; null unless it is unavailable. */
  get openUntilMs(): number | null {
    return this.phase === 'unavailable' ? this.#clock.nowMs() + this.untilCheckMs : null
  }

  /** Whether no call may start now. */
  get isOpen(): boolean {
    return this.phase !== 'available' && this.allowance === 0
  }

  isTrialOf(jobId: string): boolean {
    return this.#trialJob === jobId
  }

  /** Records the start of a job's call, which may be made although the breaker is open. */
  began(jobId: string): void {
    if (this.phase !== 'trial' || this.#trialJob !== null) return
    this.#trialJob = jobId
    this.#onChange()
  }

  /** Records that a call has succeeded. */
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

  /** Records that this side aborted a call, so that it shows nothing about the target. */
  ignored(jobId: string): void {
    if (this.#trialJob !== jobId) return
    this.#trialJob = null
    this.#trialSinceMs = this.#clock.steadyMs()
    this.#onChange()
  }

  /** Records that a job failed, without opening the breaker. */
  remember(jobId: string): void {
    this.#failedInRow.delete(jobId)
    this.#failedInRow.add(jobId)
    dropOldest(this.#failedInRow, REMEMBERED)
  }

  /**
   * Records a failed call. Returns whether it opened the breaker. Calls that were in progress when the target became unavailable
   * fail one by one; they only extend Retry-After.
   * @param retryAfterMs the delay that the target asked for, within the caller's bounds
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

  /**
   * Records the result of a check.
   * @param trouble null if something responded
   */
  checked(trouble: Trouble | null): void {
    if (this.phase !== 'unavailable') return
    if (trouble === null) {
      this.phase = 'trial'
      this.#trialSinceMs = this.#clock.steadyMs()
      this.#onChange()
      return
    }
    this.trouble = trouble
    this.#planCheck()
  }

  /** @param retryAfterMs the least time without calls */
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

/** Drops the entries that were added first. */
export function dropOldest(kept: Set<string> | Map<string, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
