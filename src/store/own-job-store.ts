/** Accounts' actions on their own jobs: the part of the storage contract for cancelling and deleting them. */
import { sumOfCosts } from '../job/amount.ts'
import { readEarlierUsage, usageOfEarlier } from '../job/earlier-usage.ts'
import type { Cancelled, Deleted } from './admin-action-store.ts'
import type { Expiry } from './expiry.ts'

export interface OwnJobStore {
  /**
   * Like `cancelJob`, for a job of the account; any other is `unknown`. Its error records that the caller cancelled it. Its
   * usage counts: its earlier runs and, if a node holds it, a call with its input tokens, because that call may be in
   * progress.
   */
  cancelOwnJob(cancel: OwnCancel): Promise<Cancelled>

  /**
   * The messages of an assigned job of the account, as JSON text; null for any other job, and if they exceed the given bytes.
   */
  heldMessages(account: string, jobId: string, maxBytes: number): Promise<string | null>

  /**
   * What a job of the account was created from, as long as the job can be read; null for any other job. Of the messages, it
   * reads no more than it returns.
   */
  readRequest(read: OwnRequestRead): Promise<OwnRequest | null>

  /**
   * Like `deleteJob`, for a job of the account that can still be read; any other is `unknown`. A job whose callback is owed
   * is not deleted unless the callback is to be dropped.
   */
  deleteOwnJob(deletion: OwnDeletion): Promise<OwnDeleted>
}

export interface OwnCancel {
  readonly account: string
  readonly jobId: string
  readonly nowMs: number
  /** As counted; null to use those that the job was created with, which may be only an upper bound. */
  readonly inputTokens: number | null
  /** What a call with them costs, which counts if a node holds the job; absent if its model has no price. */
  readonly inputCost?: number
}

export interface OwnRequestRead {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
  /** How many characters of the messages to return. */
  readonly messageChars: number
}

export interface OwnRequest {
  readonly model: string
  /** As the job stores it. */
  readonly responseFormatJson: string
  /** The beginning of their JSON text. */
  readonly messagesStart: string
  /** The size of the whole text. */
  readonly messageBytes: number
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
  /** What a call with them costs; null if the model has no price. */
  readonly inputCost: number | null
  /** The usage of its earlier runs, as written by `queue/earlier-runs.ts`; null if there were none. */
  readonly earlierJson: string | null
}

/** The usage that is counted for it, as JSON text. */
export function usageOfCancelled({ isHeld, inputTokens, inputCost, earlierJson }: CancelledRun): string {
  const earlier = readEarlierUsage(earlierJson)
  const isPriced = inputCost !== null || earlier.cost !== undefined
  const cost = sumOfCosts(earlier.cost ?? 0, isHeld ? (inputCost ?? 0) : 0)
  const usage = usageOfEarlier({
    calls: earlier.calls + (isHeld ? 1 : 0),
    inputTokens: earlier.inputTokens + (isHeld ? inputTokens : 0),
    outputTokens: earlier.outputTokens,
    ...(isPriced && { cost }),
  })
  return JSON.stringify(usage)
}
