/**
 * Poison jobs: a job that was running during several crashes may be what kills its node. When one more crash would fail it,
 * it is a candidate: a node executes only one candidate at a time, so that only the job that kills the node fails.
 */
import type { ClaimedJob } from '../job/job.ts'
import type { PoisonCandidates } from '../store/store.ts'

export class PoisonJobs {
  /** From this crash count on, a job is a candidate. */
  readonly #crashCount: number
  readonly #maxAttempts: number
  #running = 0

  /** @param maxAttempts a job with this crash count fails when it is claimed (`jobs.max_attempts`) */
  constructor(maxAttempts: number) {
    this.#crashCount = Math.max(1, maxAttempts - 1)
    this.#maxAttempts = maxAttempts
  }

  /** The bounds of the next claim: one candidate, unless one is running. */
  get claimable(): PoisonCandidates {
    return {
      crashCount: this.#crashCount,
      limit: this.#running === 0 ? 1 : 0,
      maxCrashCount: this.#maxAttempts,
    }
  }

  /** A job starts. Returns whether it is a candidate; `ended` must be called once for each candidate. */
  began({ crashCount }: ClaimedJob): boolean {
    if (crashCount < this.#crashCount) return false
    this.#running += 1
    return true
  }

  /** A candidate has ended. */
  ended(): void {
    this.#running -= 1
  }
}
