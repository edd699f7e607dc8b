/**
 * Admin actions on what is stored: cancelling and deleting jobs, deleting accounts, scrubbing. Each method is one short
 * transaction, so that servers hardly wait for it; the caller repeats those that return a number or a next job.
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

  /** The same for up to `limit` jobs of an account; returns how many there were, fewer than `limit` at the end. */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a finished job, with its outcome, cached response, callback and attempts. Its usage still counts. */
  deleteJob(jobId: string): Promise<Deleted>

  /** The same for the jobs of an account among the next jobs after an id, in the order of ids. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /**
   * Deletes the account with its keys, secrets and idempotency keys, unless it has open jobs. The sums of its usage stay under
   * `usageAs`, which no account has as its name. Afterwards no write stores
   * a job of it. Returns `has open jobs` also if the account was deleted, but a write in progress stored a job meanwhile: cancel
   * and delete such jobs, too.
   */
  deleteAccount(account: string, usageAs: string): Promise<AccountDeleted>

  /**
   * Removes deleted data from the disk, as far as the database can: SQLite rewrites its file and empties its log, and blocks
   * other writes meanwhile; Postgres vacuums its tables.
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
  /** Jobs of the account that were kept because they have not finished. */
  readonly open: number
  /** The ID after which to continue; null at the end. */
  readonly next: string | null
}

/** What is stored of who cancelled a job, and what it used. */
export interface CancelledOutcome {
  readonly by: 'operator' | 'caller'
  readonly errorJson: string
  readonly usageJson: string
  readonly nowMs: number
}

/** The outcome of a job that an operator cancelled, as it is stored. */
export const CANCELLED_ERROR_JSON = cancelledErrorJson('operator')
export const CANCELLED_USAGE_JSON = JSON.stringify(NO_USAGE)
/** The usage of a cancelled job whose model has a price: its calls, if there were any, are in it already. */
export function pricedUsageJson(usageJson: string): string {
  return JSON.stringify({ cost: 0, ...JSON.parse(usageJson) })
}
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
