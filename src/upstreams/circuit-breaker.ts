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
 * A trial that fails makes the target unavailable again. A check (`GET /models`) costs no try of a job and no write to the
 * store. A response to it proves only that something responds, so it starts a trial but does not end the wait.
 */
import type { Clock } from '../clock.ts'
import type { Trouble } from './model-server.ts'

/** How many jobs must fail in a row before a target is unavailable. */
export const FAILED_JOBS_TO_OPEN = 5
/** The pause before the first check, doubled for each later one. */
export const FIRST_CHECK_MS = 1_000
/** The longest pause between checks. After a recovery, two checks may be needed, and work must resume within ten seconds. */
const MAX_CHECK_MS = 4_000
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
  /** Since when no call has succeeded, Unix time in milliseconds; null while the target is available. */
  unavailableSinceMs: number | null = null
  /** When the target last became available, Unix time in milliseconds. */
  availableSinceMs = Number.NEGATIVE_INFINITY
  /** When the next check is due (steady clock); Retry-After may delay it. */
  #checkDueMs = 0
  /** The end of the last Retry-After (steady clock). */
  #retryAtMs = Number.NEGATIVE_INFINITY
  #checks = 0
  /** The job whose call is the trial. */
  #trialJob: string | null = null
  /** When the trial started to wait for a job (steady clock). */
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

  /** Jobs that failed since the last success, latest last. Prefer other jobs for a trial. */
  get failedJobs(): readonly string[] {
    return [...this.#failedInRow]
  }

  /** How long until the next check, in milliseconds; 0 unless the target is unavailable. */
  get untilCheckMs(): number {
    return this.phase === 'unavailable' ? Math.max(0, this.#checkDueMs - this.#clock.steadyMs()) : 0
  }

  /** How long the trial has waited for a job, in milliseconds; 0 if no trial waits. */
  get untriedMs(): number {
    const isUntried = this.phase === 'trial' && this.#trialJob === null
    return isUntried ? this.#clock.steadyMs() - this.#trialSinceMs : 0
  }

  /** When the next check is due, Unix time in milliseconds; null unless the target is unavailable. */
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

  /**
   * If a trial waits for a job, makes this job's call the trial. Does nothing otherwise, even if the breaker is open: without
   * patience, calls start anyway.
   */
  began(jobId: string): void {
    if (this.phase !== 'trial' || this.#trialJob !== null) return
    this.#trialJob = jobId
    this.#onChange()
  }

  succeeded(jobId: string): void {
    if (this.#failedInRow.size > 0) this.#failedInRow.clear()
    if (this.phase === 'available') return
    // Unless it is the trial, the call may have started before the target sent Retry-After, so it shows nothing about the
    // present.
    if (this.#trialJob !== jobId && this.#clock.steadyMs() < this.#retryAtMs) return
    this.phase = 'available'
    this.#trialJob = null
    this.trouble = null
    this.unavailableSinceMs = null
    this.availableSinceMs = this.#clock.nowMs()
    this.#onChange()
  }

  /** Records that Parley itself aborted a call, so it shows nothing about the target. */
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
   * Records a failed call. Returns whether it opened the breaker. Calls that were in progress when the target became
   * unavailable fail one by one; they only extend Retry-After.
   * @param retryAfterMs the bounded Retry-After of the response; null if it had none
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

  /**
   * Makes the target unavailable.
   * @param retryAfterMs the shortest time without calls
   */
  open(trouble: Trouble, retryAfterMs: number): void {
    // After a failed trial, the same wait continues with its increasing pauses.
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

/** Drops the oldest entry if there are more than `most`. */
export function dropOldest(kept: Set<string> | Map<string, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
