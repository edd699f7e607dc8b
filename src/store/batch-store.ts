/**
 * Batches of accounts: the part of the storage contract behind `/v1/batches`. A batch reads its lines from a file and writes
 * their results to files. While it is open, one node owns it. One write stores each step of a batch: results of lines, the
 * position in the input, and the new state. So a crash neither loses nor duplicates results.
 */
import type { OwnCaps } from './account-store.ts'

export const OPEN_STATUSES = ['validating', 'in_progress', 'cancelling'] as const
export const ENDED_STATUSES = ['completed', 'failed', 'expired', 'cancelled'] as const
export type BatchStatus = (typeof OPEN_STATUSES | typeof ENDED_STATUSES)[number]

/** Batches that fail at once count in no quota, and each may store 256 KiB of problems. */
export const MAX_STORED_BATCHES = 10_000

export interface BatchStore {
  /**
   * Returns the ID of the batch. Returns null and stores nothing if the account already has `maxOpen` open batches. A second
   * call with the same ID rejects.
   *
   * If the request may be a retry, `retriedSinceMs` is set. If the account has created a batch with the same file, endpoint and
   * description since then, this returns its ID and stores nothing, unless that batch failed or was cancelled.
   *
   * If the account then has more than `maxStored` batches, this deletes up to two of the oldest, but never an open batch.
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

  /** Requests the cancellation, unless the batch is already ending, and returns the new state. */
  cancelBatch(account: string, batchId: string, nowMs: number): Promise<StoredBatch | null>

  /**
   * Assigns up to `limit` open batches without a live owner to this node, oldest first, and the oldest open batch of each
   * account, so that no account waits for batches of others. Returns all open batches that the node then owns. Two live nodes
   * never own the same batch.
   */
  claimBatches(node: string, limit: number): Promise<StoredBatch[]>

  /** Returns lines that have a job but no stored result yet, in order. */
  linesOfBatch(batchId: string): Promise<BatchLine[]>

  /** Leaves out jobs that do not exist. The order is undefined. */
  requestsOf(jobIds: readonly string[]): Promise<JobRequest[]>

  /**
   * Returns false and stores nothing unless the node owns the batch and `step` has its current version. Adds 1 to the version.
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
  /** No line runs after this time. */
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
  /** The step writes the results of these jobs to the files. */
  readonly endedJobIds: readonly string[]
  /** The batch no longer needs these idempotency keys. */
  readonly forgottenKeys: readonly string[]
  readonly output: FileExtension | null
  readonly errors: FileExtension | null
  readonly nowMs: number
  readonly end: BatchEnd | null
}

/** The file is created if it does not exist. */
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
