/**
 * Admin actions on stored data: cancelling and deleting jobs, deleting accounts, scrubbing. Each method is one short transaction,
 * so that servers hardly wait; the caller repeats methods that return a count or the next job.
 */
import { cancelledErrorJson } from '../job/cancelled.ts'
import { NO_USAGE } from '../job/job.ts'

export interface AdminActionStore {
  /**
   * Settles an unfinished job, regardless of which node holds it: it fails with `cancelled`, its callback is owed, and its
   * usage is counted. The nodes that run it or have a pending response for it find out through `takeCancelled`; their later
   * writes change nothing. On SQLite `depth` counts the job until then. A second call changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /** Does the same for up to `limit` jobs of an account. Returns how many; fewer than `limit` means that none are left. */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a finished job, with its outcome, cached response, callback and attempts. Its usage still counts. */
  deleteJob(jobId: string): Promise<Deleted>

  /** Looks at the next jobs after an ID, in order of IDs, and deletes the finished ones of the account. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /**
   * Deletes the account with its keys, secrets and idempotency keys, unless it has open jobs. Its usage moves to the name
   * `usageAs`, which no account has. Afterwards no write can store a job for it. If a concurrent write stored one meanwhile,
   * this returns `has open jobs` although the account is gone: cancel and delete those jobs, too.
   */
  deleteAccount(account: string, usageAs: string): Promise<AccountDeleted>

  /**
   * Removes deleted data from the disk as far as the database allows. SQLite rewrites its file, empties its log, and blocks other
   * writes meanwhile. Postgres vacuums its tables.
   */
  scrub(): Promise<void>
}

export interface CancelJobs {
  readonly account: string
  /** Whether to cancel running jobs as well as queued ones. */
  readonly running: boolean
  /** Only jobs before this ID, so that jobs that arrive meanwhile do not prolong it indefinitely. */
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
/** Adds `cost: 0` to usage without a cost, because a job whose model has a price always stores one. */
export function pricedUsageJson(usageJson: string): string {
  return JSON.stringify({ cost: 0, ...JSON.parse(usageJson) })
}
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
