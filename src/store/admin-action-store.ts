/**
 * Admin actions on what is stored: cancelling and deleting jobs, deleting accounts, scrubbing. Each method is one short
 * transaction, so that servers hardly wait for it; the caller repeats those that return a number or a next job.
 */
import { cancelledErrorJson } from '../job/cancelled.ts'
import { NO_USAGE } from '../job/job.ts'

export interface AdminActionStore {
  /**
   * Settles a job that has not ended, whichever node holds it: it fails with `cancelled`, its callback is owed, and its usage
   * is counted. The nodes that run it or have a pending response for it learn it from `takeCancelled`; what they write later
   * changes nothing. On SQLite `depth` counts the job until then. A second call changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /** The same for up to `limit` jobs of an account; returns how many there were, fewer than `limit` at the end. */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a job that has ended, with its outcome, cached response, callback and attempts. Its usage stays counted. */
  deleteJob(jobId: string): Promise<Deleted>

  /** The same for the jobs of an account among the next jobs after an id, in the order of ids. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /** Deletes the account with its keys, secrets, idempotency keys and usage. False if there is no such account. */
  deleteAccount(account: string): Promise<boolean>

  /**
   * Removes deleted data from the disk, as far as the database can: SQLite writes its file again and empties its log, and
   * writes nothing else meanwhile; Postgres vacuums its tables.
   */
  scrub(): Promise<void>
}

export interface CancelJobs {
  readonly account: string
  /** Whether running jobs are cancelled too, and not only queued ones. */
  readonly running: boolean
  /** Jobs before this id only, so that jobs that arrive meanwhile do not prolong it without end. */
  readonly beforeJobId: string
  readonly limit: number
  readonly nowMs: number
}

export type Cancelled = 'cancelled' | 'ended before' | 'unknown'
export type Deleted = 'deleted' | 'not ended' | 'unknown'

export interface DeletedJobs {
  readonly deleted: number
  /** Jobs of the account that were left because they have not ended. */
  readonly open: number
  /** The id after which to continue; null at the end. */
  readonly next: string | null
}

/** The outcome of a cancelled job, as it is stored. */
export const CANCELLED_ERROR_JSON = cancelledErrorJson('operator')
export const CANCELLED_USAGE_JSON = JSON.stringify(NO_USAGE)
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
