/** What accounts do with their own jobs: the part of the storage contract for cancelling and deleting them by their callers. */
import { NO_USAGE, type Usage } from '../job/job.ts'
import type { Cancelled, Deleted } from './admin-action-store.ts'
import type { Expiry } from './expiry.ts'

export interface OwnJobStore {
  /**
   * As `cancelJob`, for a job of the account; any other is `unknown`. Its error says that the caller cancelled it, and what it
   * used is counted: its earlier runs and, if a node holds it, a call with its input tokens, because that call may be in progress.
   */
  cancelOwnJob(cancel: OwnCancel): Promise<Cancelled>

  /** The messages of a job of the account that a node holds, as JSON text; null for any other job, and for more bytes than that. */
  heldMessages(account: string, jobId: string, maxBytes: number): Promise<string | null>

  /**
   * As `deleteJob`, for a job of the account that its caller may still read; any other is `unknown`. A job whose callback is owed
   * is not deleted unless the callback is to be dropped.
   */
  deleteOwnJob(deletion: OwnDeletion): Promise<OwnDeleted>
}

export interface OwnCancel {
  readonly account: string
  readonly jobId: string
  readonly nowMs: number
  /** As they were counted; null for those that the job was created with, which may be no more than an upper bound. */
  readonly inputTokens: number | null
}

export interface OwnDeletion {
  readonly account: string
  readonly jobId: string
  readonly dropCallback: boolean
  readonly expiry: Expiry
}

export type OwnDeleted = Deleted | 'callback owed'

/** What is known about a job that its caller cancels. */
export interface CancelledRun {
  readonly isHeld: boolean
  readonly inputTokens: number
  /** What its earlier runs used, as `queue/earlier-runs.ts` writes it; null if there were none. */
  readonly earlierJson: string | null
}

/** The usage that is counted for it, as JSON text. */
export function usageOfCancelled({ isHeld, inputTokens, earlierJson }: CancelledRun): string {
  const earlier: EarlierUsage = { ...NOTHING, ...(earlierJson !== null && JSON.parse(earlierJson)) }
  const usage: Usage = {
    ...NO_USAGE,
    calls: earlier.calls + (isHeld ? 1 : 0),
    input_tokens: earlier.inputTokens + (isHeld ? inputTokens : 0),
    output_tokens: earlier.outputTokens,
  }
  return JSON.stringify(usage)
}

interface EarlierUsage {
  readonly calls: number
  readonly inputTokens: number
  readonly outputTokens: number
}

const NOTHING: EarlierUsage = { calls: 0, inputTokens: 0, outputTokens: 0 }
