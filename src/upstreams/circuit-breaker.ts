/**
 * A circuit breaker decides whether this node can call a target now. Each target has one for all accounts, and one for each
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

export const FAILED_JOBS_TO_OPEN = 5
export const FIRST_CHECK_MS = 1_000
/** After a recovery, two checks may be needed, and work must resume within ten seconds. */
const MAX_CHECK_MS = 4_000
/** Pauses are shorter or longer by up to this fraction, so that nodes do not check together. */
const JITTER = 0.25
/** At most this many failed jobs are remembered; the oldest are dropped. */
export const REMEMBERED = 64

export type HealthPhase = 'available' | 'unavailable' | 'trial'

export class CircuitBreaker {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onChange: () => void
  // Only this class writes the next four fields.
  phase: HealthPhase = 'available'
  trouble: Trouble | null = null
  /** The breaker opened at this time (Unix time). The value is null while the target is available. */
  unavailableSinceMs: number | null = null
  /** The target last became available at this time (Unix time). */
  availableSinceMs = Number.NEGATIVE_INFINITY
  /** The next check is due at this time (steady clock). Retry-After may delay it. */
  #checkDueMs = 0
  #retryAtMs = Number.NEGATIVE_INFINITY
  #checks = 0
  #trialJob: string | null = null
  /** The trial has been waiting for a job since this time (steady clock). */
  #trialSinceMs = 0
  /** These jobs have failed since the last success. The latest failure comes last. */
  readonly #failedInRow = new Set<string>()

  /** @param onChange called when the phase or the allowance has changed */
  constructor(clock: Clock, random: () => number, onChange: () => void) {
    this.#clock = clock
    this.#random = random
    this.#onChange = onChange
  }

  /** This many more jobs may start; none while a trial is in progress. */
  get allowance(): number {
    if (this.phase === 'available') return Number.POSITIVE_INFINITY
    return this.phase === 'trial' && this.#trialJob === null ? 1 : 0
  }

  /** Other jobs are better for a trial, because one of these may be the cause. The latest failure comes last. */
  get failedJobs(): readonly string[] {
    return [...this.#failedInRow]
  }

  get untilCheckMs(): number {
    return this.phase === 'unavailable' ? Math.max(0, this.#checkDueMs - this.#clock.steadyMs()) : 0
  }

  /** The trial has waited for a job for this time; 0 if no trial waits. */
  get untriedMs(): number {
    const isUntried = this.phase === 'trial' && this.#trialJob === null
    return isUntried ? this.#clock.steadyMs() - this.#trialSinceMs : 0
  }

  /** The next check is due at this time (Unix time). The value is null unless the target is unavailable. */
  get openUntilMs(): number | null {
    return this.phase === 'unavailable' ? this.#clock.nowMs() + this.untilCheckMs : null
  }

  get isOpen(): boolean {
    return this.phase !== 'available' && this.allowance === 0
  }

  isTrialOf(jobId: string): boolean {
    return this.#trialJob === jobId
  }

  /** If a trial waits for a job, makes this job's call the trial. Other calls change nothing. */
  began(jobId: string): void {
    if (this.phase !== 'trial' || this.#trialJob !== null) return
    this.#trialJob = jobId
    this.#onChange()
  }

  succeeded(jobId: string): void {
    if (this.#failedInRow.size > 0) this.#failedInRow.clear()
    if (this.phase === 'available') return
    // A call other than the trial may have started before the target sent Retry-After, so its success shows nothing about the
    // present.
    if (this.#trialJob !== jobId && this.#clock.steadyMs() < this.#retryAtMs) return
    this.phase = 'available'
    this.#trialJob = null
    this.trouble = null
    this.unavailableSinceMs = null
    this.availableSinceMs = this.#clock.nowMs()
    this.#onChange()
  }

  /** Records that Parley itself aborted a call, so that the next job can be the trial. */
  ignored(jobId: string): void {
    if (this.#trialJob !== jobId) return
    this.#trialJob = null
    this.#trialSinceMs = this.#clock.steadyMs()
    this.#onChange()
  }

  remember(jobId: string): void {
    this.#failedInRow.delete(jobId)
    this.#failedInRow.add(jobId)
    dropOldest(this.#failedInRow, REMEMBERED)
  }

  /**
   * Returns whether this failure opened the breaker. Calls that were in progress when the target became unavailable fail one by
   * one; they only extend Retry-After.
   * @param retryAfterMs the bounded Retry-After of the response; null if it had none
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

  /** @param trouble null if something responded */
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

  /** @param retryAfterMs the shortest time without calls */
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

export function dropOldest(kept: Set<string> | Map<string, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
