/**
 * Batches of accounts: the part of the storage contract behind `/v1/batches`. A batch reads its lines from a file and writes
 * their results to files. While it is open, one node owns it. One write stores each step of a batch: the results of lines, the
 * position in the input, and the new state. So a crash neither loses nor duplicates results; the batch only repeats a step.
 */
import type { OwnCaps } from './account-store.ts'

export const OPEN_STATUSES = ['validating', 'in_progress', 'cancelling'] as const
export const ENDED_STATUSES = ['completed', 'failed', 'expired', 'cancelled'] as const
export type BatchStatus = (typeof OPEN_STATUSES | typeof ENDED_STATUSES)[number]

/**
 * An account cannot store more batches than this. Batches that fail at once count in no quota, and each may store 256 KiB of
 * problems.
 */
export const MAX_STORED_BATCHES = 10_000

export interface BatchStore {
  /**
   * Stores the batch and returns its ID. Returns null and stores nothing if the account already has `maxOpen` open batches. A
   * second call with the same ID rejects.
   *
   * For a retry, `retriedSinceMs` is set, because an earlier try may already have created the batch. If the account has created
   * a batch with the same file, endpoint and description since that time, this returns its ID and stores nothing. Cancelled and
   * failed batches do not count.
   *
   * If the account would have more than `maxStored` batches (`MAX_STORED_BATCHES` if absent), this also deletes up to two that
   * are older than the newest `maxStored`. It never deletes an open batch.
   */
  createBatch(
    batch: NewBatch,
    maxOpen: number,
    retriedSinceMs?: number | null,
    maxStored?: number,
  ): Promise<string | null>

  /** Returns null if the batch does not exist or belongs to another account. */
  findBatch(account: string, batchId: string): Promise<StoredBatch | null>

  /** Returns the batch of any account; null if it does not exist. */
  findAnyBatch(batchId: string): Promise<StoredBatch | null>

  /** Returns batches, newest first. */
  listBatches(search: BatchSearch): Promise<StoredBatch[]>

  /**
   * Requests the cancellation of the batch, unless it is already ending. Returns its new state; null if the account has no such
   * batch.
   */
  cancelBatch(account: string, batchId: string, nowMs: number): Promise<StoredBatch | null>

  /**
   * Assigns up to `limit` open batches without a live owner to this node, oldest first. In addition, it assigns the oldest open
   * batch of each account, so that no account waits for batches of others. Returns all open batches that the node then owns.
   * Two live nodes never own the same batch.
   */
  claimBatches(node: string, limit: number): Promise<StoredBatch[]>

  /** Returns, in order, the lines that have a job but no result in a file yet. */
  linesOfBatch(batchId: string): Promise<BatchLine[]>

  requestsOf(jobIds: readonly string[]): Promise<JobRequest[]>

  /**
   * Stores a step of a batch and adds 1 to the batch's version. Returns false and stores nothing unless the node owns the batch
   * and `step` has the current version.
   */
  advanceBatch(step: BatchStep): Promise<boolean>

  /** Deletes all batches of the account. The nodes that own them notice this at the next step. */
  deleteBatchesOf(account: string): Promise<void>

  /** Returns the limits for jobs of an account; null if the account does not exist. */
  findOwner(account: string): Promise<AccountLimits | null>
}

export interface NewBatch {
  /** UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly account: string
  readonly inputFileId: string
  readonly endpoint: string
  /** JSON text that the store does not interpret: what the caller said about the batch. */
  readonly aboutJson: string
  readonly createdAtMs: number
  /** No line runs after this time. */
  readonly deadlineMs: number
}

export interface StoredBatch extends NewBatch {
  readonly version: number
  readonly status: BatchStatus
  readonly cancellingAtMs: number | null
  /** Null until the file has content. Callers can read it when the batch has ended. */
  readonly outputFileId: string | null
  readonly errorFileId: string | null
  /** JSON text that the store does not interpret; empty at first. */
  readonly progressJson: string
}

export interface BatchLine {
  /** Starts at 1. */
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
  /** Only batches after this one, the last of the previous page. */
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
  /** The jobs whose results this step writes to the files. */
  readonly endedJobIds: readonly string[]
  /** Idempotency keys of the batch's requests that the batch no longer needs. */
  readonly forgottenKeys: readonly string[]
  readonly output: FileExtension | null
  readonly errors: FileExtension | null
  readonly nowMs: number
  /** Ends the batch and makes its files readable; null if the batch stays open. */
  readonly end: BatchEnd | null
}

/** Appends the content to the file, and creates the file if it does not exist. */
export interface FileExtension {
  readonly fileId: string
  readonly content: Uint8Array
}

export interface BatchEnd {
  /** When to delete the batch. */
  readonly removeAtMs: number
  readonly filesExpireAtMs: number | null
  readonly outputName: string
  readonly errorName: string
  /**
   * The stored text of the callback that reports the end of the batch; null to report nothing. From this step on, the callback
   * is pending under the ID of the batch.
   */
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

/** The `purpose` of files that batches write. */
export const OUTPUT_PURPOSE = 'batch_output'
