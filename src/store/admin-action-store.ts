/**
 * How operators step in: end jobs before their time, and delete what was stored. Each method is one short transaction, so
 * that servers beside it hardly wait; what takes many is walked by the caller (admin/interventions.ts).
 */
import { NO_USAGE } from '../job/job.ts'

export interface AdminActionStore {
  /**
   * Ends a job that has not ended, whoever holds it: it has failed with `cancelled`, its callback is owed, and its usage is
   * counted. The node that runs it or waits for it is told by `takeCancelled`, from when on
   * `depth` knows it too; what that node writes later changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /** The same for up to `limit` jobs of an account; returns how many there were, fewer than `limit` at the end. */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a job that has ended, with its outcome, kept answer, callback and its attempts. Its usage stays counted. */
  deleteJob(jobId: string): Promise<Deleted>

  /** The same for those of an account among the next jobs after an id, in the order of ids. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /** Deletes the account with its keys, secrets, idempotency keys and usage. False if there is none. */
  deleteAccount(account: string): Promise<boolean>

  /**
   * Has what was deleted leave the disk, as far as the database can: SQLite's file is written anew and its log emptied;
   * Postgres's tables are vacuumed. Nothing else is written meanwhile on SQLite.
   */
  scrub(): Promise<void>
}

export interface CancelJobs {
  readonly account: string
  /** Whether those that run are ended too, beside those that wait. */
  readonly running: boolean
  /** Jobs before this id only, so that what comes in meanwhile does not keep it going for ever. */
  readonly beforeJobId: string
  readonly limit: number
  readonly nowMs: number
}

export type Cancelled = 'cancelled' | 'ended before' | 'unknown'
export type Deleted = 'deleted' | 'not ended' | 'unknown'

export interface DeletedJobs {
  readonly deleted: number
  /** Jobs of the account that were passed over because they have not ended. */
  readonly open: number
  /** After which id to go on; null at the end. */
  readonly next: string | null
}

/** How a job ends that an operator cancelled, as stored. */
export const CANCELLED_ERROR_JSON = JSON.stringify({
  code: 'cancelled',
  message: 'An operator of the service cancelled the job.',
})
export const CANCELLED_USAGE_JSON = JSON.stringify(NO_USAGE)
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
