/**
 * Batches of accounts: the part of the storage contract behind `/v1/batches`. A batch reads its lines from a file and writes
 * their results to files. At most one node owns an open batch. One write stores each step of a batch: results of lines, the
 * position in the input, and the new state. So a crash neither loses nor duplicates results.
 */
import type { OwnCaps } from './account-store.ts'

export const OPEN_STATUSES = ['validating', 'in_progress', 'cancelling'] as const
export const ENDED_STATUSES = ['completed', 'failed', 'expired', 'cancelled'] as const
export type BatchStatus = (typeof OPEN_STATUSES | typeof ENDED_STATUSES)[number]

/**
 * `createBatch` deletes old batches of an account that has more than this many. Batches that fail at once count in no quota,
 * and each may store 256 KiB of problems.
 */
export const MAX_STORED_BATCHES = 10_000

export interface BatchStore {
  /**
   * Returns the ID of the batch. Returns null and stores nothing if the account already has `maxOpen` open batches. A second
   * call with the same ID stores nothing.
   *
   * If the request may be a retry, `retriedSinceMs` is set. If the account has created a batch with the same file, endpoint and
   * `aboutJson` since then, this returns its ID and stores nothing, unless that batch failed or was cancelled.
   *
   * If the account then has more than `maxStored` batches, this deletes up to two of those that are older than the newest
   * `maxStored`, but no open batch.
   */
  createBatch(
    batch: NewBatch,
    maxOpen: number,
    retriedSinceMs?: number | null,
    maxStored?: number,
  ): Promise<string | null>

  findBatch(account: string, batchId: string): Promise<StoredBatch | null>

  findAnyBatch(batchId: string): Promise<StoredBatch | null>

  /** Returns batches, newest first. */
  listBatches(search: BatchSearch): Promise<StoredBatch[]>

  /**
   * Requests the cancellation, unless the batch has ended or is being cancelled. Returns the batch afterwards; null if the
   * account has no such batch.
   */
  cancelBatch(account: string, batchId: string, nowMs: number): Promise<StoredBatch | null>

  /**
   * Assigns open batches without a live owner to this node: the oldest `limit` of them, and those that are the oldest open
   * batch of their account, for up to 400 accounts. So an account hardly waits for batches of others. Returns all open batches
   * that the node then owns. Two live nodes never own the same batch.
   */
  claimBatches(node: string, limit: number): Promise<StoredBatch[]>

  /** Returns lines that have a job but no stored result yet, in order. */
  linesOfBatch(batchId: string): Promise<BatchLine[]>

  /** Leaves out jobs that do not exist. The order is undefined. */
  requestsOf(jobIds: readonly string[]): Promise<JobRequest[]>

  /**
   * Returns false and stores nothing unless the batch is open, the node owns it, and `step` has its current version. Adds 1 to
   * the version.
   */
  advanceBatch(step: BatchStep): Promise<boolean>

  /** The nodes that own these batches notice the deletion at their next step. */
  deleteBatchesOf(account: string): Promise<void>

  /** Returns null if the account does not exist. */
  findOwner(account: string): Promise<AccountLimits | null>
}

export interface NewBatch {
  /** The ID is a UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly account: string
  readonly inputFileId: string
  readonly endpoint: string
  /** The store does not interpret this text. */
  readonly aboutJson: string
  readonly createdAtMs: number
  /** Lines that have not finished by this time expire. */
  readonly deadlineMs: number
}

export interface StoredBatch extends NewBatch {
  readonly version: number
  readonly status: BatchStatus
  readonly cancellingAtMs: number | null
  /** The file is created when it gets content. Callers cannot read it before the batch has ended. */
  readonly outputFileId: string | null
  readonly errorFileId: string | null
  /** The store does not interpret this text, which is empty at first. */
  readonly progressJson: string
}

export interface BatchLine {
  /** Line numbers start at 1. */
  readonly line: number
  readonly customId: string
  readonly jobId: string
}

export interface JobRequest {
  readonly jobId: string
  readonly model: string
  readonly responseFormatJson: string
}

export interface BatchSearch {
  readonly account?: string
  readonly onlyOpen?: boolean
  readonly afterBatchId?: string
  readonly limit: number
}

export interface BatchStep {
  readonly batchId: string
  readonly node: string
  readonly version: number
  readonly status: BatchStatus
  readonly progressJson: string
  readonly started: readonly BatchLine[]
  /** `output` and `errors` contain the results of these jobs. */
  readonly endedJobIds: readonly string[]
  /** The step deletes these idempotency keys, which the batch no longer needs. */
  readonly forgottenKeys: readonly string[]
  readonly output: FileExtension | null
  readonly errors: FileExtension | null
  readonly nowMs: number
  readonly end: BatchEnd | null
}

/** The content is appended to the file of the batch. If there is none yet, it is created with this ID. */
export interface FileExtension {
  readonly fileId: string
  readonly content: Uint8Array
}

export interface BatchEnd {
  readonly removeAtMs: number
  readonly filesExpireAtMs: number | null
  readonly outputName: string
  readonly errorName: string
  /** The callback reports the end of the batch, and is pending under the ID of the batch from this step on. */
  readonly callback: string | null
}

export interface BatchReport {
  readonly batchId: string
  readonly account: string
  readonly callback: string
  readonly createdAtMs: number
  readonly nowMs: number
}

export interface AccountLimits {
  readonly tier: string
  readonly suspendedAtMs: number | null
  readonly caps: OwnCaps
}

export const OUTPUT_PURPOSE = 'batch_output'
