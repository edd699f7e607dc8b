/**
 * Batches of accounts: the part of the storage contract behind `/v1/batches`. A batch reads its lines from a file and writes their
 * results to files. While it is open, one node owns it, and stores the whole step at once: the results of lines, how far its input was
 * read, and what the batch looks like now. So a crash loses or doubles nothing: it only repeats a step.
 */
import type { OwnCaps } from './account-store.ts'

export const OPEN_STATUSES = ['validating', 'in_progress', 'cancelling'] as const
export const ENDED_STATUSES = ['completed', 'failed', 'expired', 'cancelled'] as const
export type BatchStatus = (typeof OPEN_STATUSES | typeof ENDED_STATUSES)[number]

export interface BatchStore {
  /** Returns false, and stores nothing, if the account has `maxOpen` open batches already. A second call with the same ID rejects. */
  createBatch(batch: NewBatch, maxOpen: number): Promise<boolean>

  /** Null if it does not exist, or belongs to another account. */
  findBatch(account: string, batchId: string): Promise<StoredBatch | null>

  /** The batch of any account; null if it does not exist. */
  findAnyBatch(batchId: string): Promise<StoredBatch | null>

  /** Newest first. */
  listBatches(search: BatchSearch): Promise<StoredBatch[]>

  /** Asks the owner to cancel a batch that is not ending already. Returns the batch as it is then; null if the account has none. */
  cancelBatch(account: string, batchId: string, nowMs: number): Promise<StoredBatch | null>

  /**
   * Takes up to `limit` open batches that no live node owns, oldest first. Returns all open batches that the node owns then. No batch
   * is owned by two live nodes.
   */
  claimBatches(node: string, limit: number): Promise<StoredBatch[]>

  /** The lines whose jobs were created and whose results are in no file yet, in order. */
  linesOfBatch(batchId: string): Promise<BatchLine[]>

  /** What the jobs asked for, in any order; those that do not exist are left out. */
  requestsOf(jobIds: readonly string[]): Promise<JobRequest[]>

  /**
   * Stores a step of a batch. Returns false, and stores nothing, unless the node owns the batch and nothing has changed it since it
   * had this version; each step adds 1 to the version.
   */
  advanceBatch(step: BatchStep): Promise<boolean>

  /** Deletes all batches of the account. Their owners find out at their next step. */
  deleteBatchesOf(account: string): Promise<void>

  /** What decides what an account may create; null if it does not exist. */
  findOwner(account: string): Promise<AccountLimits | null>
}

export interface NewBatch {
  /** UUIDv7: batches lie in the order of time. */
  readonly id: string
  readonly account: string
  readonly inputFileId: string
  readonly endpoint: string
  /** What the account said about it, as JSON text. */
  readonly aboutJson: string
  readonly createdAtMs: number
  /** Until when its lines may run. */
  readonly deadlineMs: number
}

export interface StoredBatch extends NewBatch {
  readonly version: number
  readonly status: BatchStatus
  readonly cancellingAtMs: number | null
  /** Null until they have content. They can be read once the batch has ended. */
  readonly outputFileId: string | null
  readonly errorFileId: string | null
  /** How far it is, as JSON text; empty at first. */
  readonly progressJson: string
}

export interface BatchLine {
  /** From 1 on. */
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
  /** Absent for those of all accounts. */
  readonly account?: string
  /** Only batches that have not ended. */
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
  /** The jobs of lines whose results are in the files from now on. */
  readonly endedJobIds: readonly string[]
  /** Keys of the account's requests that need not be remembered any longer. */
  readonly forgottenKeys: readonly string[]
  readonly output: FileExtension | null
  readonly errors: FileExtension | null
  readonly nowMs: number
  /** Makes the files readable; null while the batch is open. */
  readonly end: BatchEnd | null
}

/** The file is created with its first content. */
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
   * The stored text of a callback that reports the end; null if nothing is reported. It is owed from then on, under the ID of the
   * batch, like that of a job.
   */
  readonly callback: string | null
}

/** What a batch owes its account once it has ended. */
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

/** The `purpose` of the files that batches write. */
export const OUTPUT_PURPOSE = 'batch_output'
