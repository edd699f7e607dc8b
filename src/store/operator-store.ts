/**
 * The part of the storage contract that commands use, even while servers are running. Admin actions and the audit log are
 * declared here, the rest in other files.
 */
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
 * Each method except `scrub` writes in one short transaction, so it hardly delays servers. Callers repeat methods that return a
 * count or the next job.
 */
export interface AdminActionStore {
  /**
   * Fails a job with the error `cancelled`, whichever node holds it. It counts in the account's usage, and its callback becomes
   * pending. `takeCancelled` reports it to the nodes that run it or have a pending response for it; later writes of those nodes
   * change nothing. On SQLite, `depth` counts the job until `takeCancelled` has returned it. A second call changes nothing.
   */
  cancelJob(jobId: string, nowMs: number): Promise<Cancelled>

  /** Cancels up to `limit` jobs like `cancelJob`, and returns how many. Fewer than `limit` means that none are left. */
  cancelJobs(which: CancelJobs): Promise<number>

  /** The outcome, the cached response, and the callback with its attempts are deleted, too. The usage still counts. */
  deleteJob(jobId: string): Promise<Deleted>

  /** Examines some jobs after this ID, in order of IDs, and deletes those of the account that have finished. */
  deleteJobsOf(account: string, afterJobId: string): Promise<DeletedJobs>

  /**
   * Deletes the account with its keys, secrets and idempotency keys, unless it has open jobs. Its usage moves to `usageAs`, a
   * name that no account has. Afterwards no write can store a job for the account. If a concurrent write stored a job during
   * the deletion, this returns `has open jobs` although the account is gone. Then cancel and delete its jobs, too.
   */
  deleteAccount(account: string, usageAs: string): Promise<AccountDeleted>

  /** Removes deleted data from the disk as far as the database allows. SQLite rewrites its file, which blocks other writes. */
  scrub(): Promise<void>
}

export interface CancelJobs {
  readonly account: string
  /** If true, jobs that a node holds are cancelled, too, and not only queued jobs. */
  readonly running: boolean
  /** Later jobs are left out, so that new jobs do not prolong the action indefinitely. */
  readonly beforeJobId: string
  readonly limit: number
  readonly nowMs: number
}

export type Cancelled = 'cancelled' | 'ended before' | 'unknown'
export type Deleted = 'deleted' | 'not ended' | 'unknown'
export type AccountDeleted = 'deleted' | 'has open jobs' | 'unknown'

export interface DeletedJobs {
  readonly deleted: number
  /** This many of the examined jobs have not finished. */
  readonly open: number
  readonly next: string | null
}

export interface CancelledOutcome {
  readonly by: 'operator' | 'caller'
  readonly errorJson: string
  readonly usageJson: string
  readonly nowMs: number
}

/**
 * The audit log. An entry is added before its admin action and completed after it, so no action is missing. If an entry has no
 * outcome, its action is running or was interrupted. Nothing else changes entries, and they are never deleted.
 */
export interface AuditStore {
  /** A second call with the same entry changes nothing. */
  addAuditEntry(entry: NewAuditEntry): Promise<void>

  /** A second call replaces the outcome. An unknown entry is ignored. */
  endAuditEntry(entryId: string, outcome: string): Promise<void>

  /** Returns entries, newest first. */
  listAuditEntries(search: AuditSearch): Promise<AuditEntry[]>
}

interface AuditFields {
  /** The ID is a UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly atMs: number
  /** An example is `alice from 10.0.0.7 (admin API)`. */
  readonly who: string
  /** An example is `cancel a job`. */
  readonly what: string
  readonly target: string | null
  /** The details never contain secrets or contents of jobs. */
  readonly detailsJson: string
}

export interface NewAuditEntry extends AuditFields {
  readonly account: string | AccountOf | null
}

/** The store looks up the account of the job, batch or key, and stores null if that does not exist. */
export type AccountOf = { readonly ofJob: string } | { readonly ofBatch: string } | { readonly ofKey: string }

export interface AuditEntry extends AuditFields {
  readonly account: string | null
  /** The outcome is null while the action runs, and permanently if it was interrupted. */
  readonly outcome: string | null
}

export interface AuditSearch {
  readonly account?: string
  readonly beforeEntryId?: string
  readonly limit: number
}
