/**
 * Admin actions on stored data: cancelling and deleting jobs, deleting accounts, scrubbing. Each method except `scrub` is one
 * short transaction, so it hardly delays servers. Callers repeat methods that return a count or the next job.
 */
import { cancelledErrorJson } from '../job/cancelled.ts'
import { NO_USAGE } from '../job/job.ts'

export interface AdminActionStore {
  /**
   * Settles an unfinished job, whichever node holds it: it fails with `cancelled`, its callback is pending, and its usage
   * counts. `takeCancelled` reports the job to the nodes that run it or have a pending response for it; later writes of those
   * nodes change nothing. On SQLite, `depth` counts the job until it was reported. A second call changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /**
   * Cancels up to `limit` jobs of an account like `cancelJob`. Returns how many; fewer than `limit` means that none are left.
   */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a finished job, with its outcome, cached response, callback and attempts. Its usage still counts. */
  deleteJob(jobId: string): Promise<Deleted>

  /** Examines the next jobs after an ID, in order of IDs, and deletes those of the account that have finished. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /**
   * Deletes the account with its keys, secrets and idempotency keys, unless it has open jobs. Its usage moves to the name
   * `usageAs`, which no account has. Afterwards no write can store a job for the account. If a concurrent write stored a job
   * during the deletion, `has open jobs` is returned although the account is gone. Then cancel and delete its jobs, too.
   */
  deleteAccount(account: string, usageAs: string): Promise<AccountDeleted>

  /**
   * Removes deleted data from the disk as far as the database allows. SQLite rewrites its file and empties its log, which
   * blocks other writes. Postgres vacuums its tables.
   */
  scrub(): Promise<void>
}

export interface CancelJobs {
  readonly account: string
  /** Whether to cancel running jobs as well as queued ones. */
  readonly running: boolean
  /** Only jobs before this ID, so that jobs accepted during the action do not prolong it indefinitely. */
  readonly beforeJobId: string
  readonly limit: number
  readonly nowMs: number
}

export type Cancelled = 'cancelled' | 'ended before' | 'unknown'
export type Deleted = 'deleted' | 'not ended' | 'unknown'
export type AccountDeleted = 'deleted' | 'has open jobs' | 'unknown'

export interface DeletedJobs {
  readonly deleted: number
  /** Jobs of the account that were not deleted, because they are unfinished. */
  readonly open: number
  /** The ID after which to continue; null at the end. */
  readonly next: string | null
}

/** Who cancelled a job, and what it used. */
export interface CancelledOutcome {
  readonly by: 'operator' | 'caller'
  readonly errorJson: string
  readonly usageJson: string
  readonly nowMs: number
}

/** The stored outcome of a job that an operator cancelled. */
export const CANCELLED_ERROR_JSON = cancelledErrorJson('operator')
export const CANCELLED_USAGE_JSON = JSON.stringify(NO_USAGE)
/** Adds `cost: 0` to usage without a cost, because a job whose model has a price always stores a cost. */
export function pricedUsageJson(usageJson: string): string {
  return JSON.stringify({ cost: 0, ...JSON.parse(usageJson) })
}
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
