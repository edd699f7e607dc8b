/**
 * The part of the storage contract that commands use, even while servers are running. This file has the admin actions on stored
 * data and the audit log; the other parts are in files of their own.
 */
import type { CancelledBy } from '../job/results-without-call.ts'
import type { AccountStore, AdminTokenStore } from './account-store.ts'
import type { BatchStore } from './batch-store.ts'
import type { CallbackRecords } from './callback-store.ts'
import type { FileStore } from './file-store.ts'
import type { JobSearchStore } from './job-search-store.ts'
import type { RerunStore } from './rerun-store.ts'
import type { UsageStore } from './usage-store.ts'

export interface OperatorStore
  extends AccountStore,
    AuditStore,
    Omit<BatchStore, 'advanceBatch'>,
    CallbackRecords,
    AdminActionStore,
    AdminTokenStore,
    FileStore,
    JobSearchStore,
    RerunStore,
    UsageStore {
  close(): Promise<void>
}

/**
 * Admin actions on stored data: cancelling and deleting jobs, deleting accounts, scrubbing. Each method except `scrub` is one
 * short transaction, so it hardly delays servers. Callers repeat methods that return a count or the next job.
 */
export interface AdminActionStore {
  /**
   * Fails an unfinished job with the error `cancelled`, whichever node holds it. The job counts in the usage of its account,
   * and its callback becomes pending. `takeCancelled` reports the job to the nodes that run it or have a pending response for
   * it; later writes of those nodes change nothing. On SQLite, `depth` counts the job until it was reported. A second call
   * changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /**
   * Cancels up to `limit` jobs of an account like `cancelJob`. Returns how many; fewer than `limit` means that none are left.
   */
  cancelJobs(which: CancelJobs): Promise<number>

  /** Deletes a finished job, with its outcome, cached response, callback and attempts. Its usage still counts. */
  deleteJob(jobId: string): Promise<Deleted>

  /** Examines a bounded number of jobs after this ID, in order of IDs, and deletes those of the account that have finished. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /**
   * Deletes the account with its keys, secrets and idempotency keys, unless it has open jobs. Its usage moves to `usageAs`, a
   * name that no account has. Afterwards no write can store a job for the account. If a concurrent write stored a job during
   * the deletion, this returns `has open jobs` although the account is gone. Then cancel and delete its jobs, too.
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
  /** True to cancel running jobs as well as queued ones. */
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

export interface CancelledOutcome {
  readonly by: CancelledBy
  readonly errorJson: string
  readonly usageJson: string
  readonly nowMs: number
}

/**
 * The audit log: who did what to the service. An entry is added before its admin action and completed after it, so no action is
 * missing. If an entry has no outcome, its action was interrupted. Nothing else changes entries, and they are never deleted.
 */
export interface AuditStore {
  /** Stores the entry durably, before the action begins. A second call with the same entry changes nothing. */
  addAuditEntry(entry: NewAuditEntry): Promise<void>

  /** Stores the outcome of the action. A second call replaces it; an unknown entry is ignored. */
  endAuditEntry(entryId: string, outcome: string): Promise<void>

  /** Returns entries, newest first. */
  listAuditEntries(search: AuditSearch): Promise<AuditEntry[]>
}

interface AuditFields {
  /** UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly atMs: number
  /** For example `root@db1 (command line)` or `alice from 10.0.0.7 (admin API)`. */
  readonly who: string
  /** For example `cancel a job`. */
  readonly what: string
  /** The job, batch, key or admin token that the action was about, if any. */
  readonly target: string | null
  /** JSON text. It never contains contents of jobs or secrets. */
  readonly detailsJson: string
}

export interface NewAuditEntry extends AuditFields {
  readonly account: string | AccountOf | null
}

/**
 * Names the account through a job, batch or key, because the caller may not know the account. The store looks it up, and stores
 * null if the job, batch or key does not exist.
 */
export type AccountOf = { readonly ofJob: string } | { readonly ofBatch: string } | { readonly ofKey: string }

export interface AuditEntry extends AuditFields {
  readonly account: string | null
  /** Null while the action runs, and permanently if it was interrupted. */
  readonly outcome: string | null
}

export interface AuditSearch {
  readonly account?: string
  /** Only entries before this one, the last of the previous page. */
  readonly beforeEntryId?: string
  readonly limit: number
}
