/**
 * Batches of accounts: the part of the storage contract behind `/v1/batches`. A batch reads its lines from a file and writes
 * their results to files. While it is open, one node owns it and stores each step with one write: the results of lines, the
 * position in the input, and the new state of the batch. So a crash neither loses nor duplicates anything; it only repeats
 * a step.
 */
import type { OwnCaps } from './account-store.ts'

export const OPEN_STATUSES = ['validating', 'in_progress', 'cancelling'] as const
export const ENDED_STATUSES = ['completed', 'failed', 'expired', 'cancelled'] as const
export type BatchStatus = (typeof OPEN_STATUSES | typeof ENDED_STATUSES)[number]

/** Batches that fail at once count in no quota, and each may have 256 KiB of problems. */
export const MAX_STORED_BATCHES = 10_000

export interface BatchStore {
  /**
   * Returns false, and stores nothing, if the account has `maxOpen` open batches already. A second call with the same ID rejects.
   * Deletes the oldest batch of the account if it would have more than `maxStored` and this one has ended. If `maxStored` is
   * absent, it is `MAX_STORED_BATCHES`.
   */
  createBatch(batch: NewBatch, maxOpen: number, maxStored?: number): Promise<boolean>

  /** Returns null if the batch does not exist or belongs to another account. */
  findBatch(account: string, batchId: string): Promise<StoredBatch | null>

  /** The batch of any account; null if it does not exist. */
  findAnyBatch(batchId: string): Promise<StoredBatch | null>

  /** Returns batches, newest first. */
  listBatches(search: BatchSearch): Promise<StoredBatch[]>

  /** Asks the owner to cancel the batch, unless it is already ending. Returns its new state; null if the account has none. */
  cancelBatch(account: string, batchId: string, nowMs: number): Promise<StoredBatch | null>

  /**
   * Assigns up to `limit` open batches that no live node owns to this node, oldest first. Beyond the limit, it assigns the oldest
   * open batch of each account, so that no account waits for batches of others. Returns all open batches that the node then
   * owns. No two live nodes own the same batch.
   */
  claimBatches(node: string, limit: number): Promise<StoredBatch[]>

  /** Returns, in order, the lines whose jobs were created but whose results are not in a file yet. */
  linesOfBatch(batchId: string): Promise<BatchLine[]>

  /** Returns the requests of the jobs, in any order, without jobs that do not exist. */
  requestsOf(jobIds: readonly string[]): Promise<JobRequest[]>

  /**
   * Stores a step of a batch, which adds 1 to its version. Returns false and stores nothing unless the node owns the batch and
   * `step` names the current version.
   */
  advanceBatch(step: BatchStep): Promise<boolean>

  /** Deletes all batches of the account. Their owners find out at their next step. */
  deleteBatchesOf(account: string): Promise<void>

  /** Returns the limits that apply to what an account creates; null if it does not exist. */
  findOwner(account: string): Promise<AccountLimits | null>
}

export interface NewBatch {
  /** UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly account: string
  readonly inputFileId: string
  readonly endpoint: string
  /** The account's description of the batch, as JSON text. */
  readonly aboutJson: string
  readonly createdAtMs: number
  /** Lines cannot run after this time. */
  readonly deadlineMs: number
}

export interface StoredBatch extends NewBatch {
  readonly version: number
  readonly status: BatchStatus
  readonly cancellingAtMs: number | null
  /** Null until they have content. They become readable when the batch ends. */
  readonly outputFileId: string | null
  readonly errorFileId: string | null
  /** The progress of the batch, as JSON text; empty at first. */
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
  /** Absent for batches of all accounts. */
  readonly account?: string
  /** Only batches that have not ended. */
  readonly onlyOpen?: boolean
  /** Only batches after this one, the last of the previous page. */
  readonly afterBatchId?: string
  /** Only batches of the same file, with the same endpoint and description, that are at least as new. */
  readonly like?: Pick<NewBatch, 'inputFileId' | 'endpoint' | 'aboutJson' | 'createdAtMs'>
  readonly limit: number
}

export interface BatchStep {
  readonly batchId: string
  readonly node: string
  readonly version: number
  readonly status: BatchStatus
  readonly progressJson: string
  readonly started: readonly BatchLine[]
  /** The jobs of lines whose results this step writes to the files. */
  readonly endedJobIds: readonly string[]
  /** Idempotency keys of the batch's requests that are no longer needed. */
  readonly forgottenKeys: readonly string[]
  readonly output: FileExtension | null
  readonly errors: FileExtension | null
  readonly nowMs: number
  /** Ends the batch and makes its files readable; null while it is open. */
  readonly end: BatchEnd | null
}

/** Content to append to a file. If the file does not exist, this creates it. */
export interface FileExtension {
  readonly fileId: string
  readonly content: Uint8Array
}

export interface BatchEnd {
  /** When the batch is deleted. */
  readonly removeAtMs: number
  readonly filesExpireAtMs: number | null
  readonly outputName: string
  readonly errorName: string
  /**
   * The stored text of the callback that reports the end; null to report nothing. The callback is pending from then on, under the
   * ID of the batch.
   */
  readonly callback: string | null
}

/** The callback that reports the end of a batch. */
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
