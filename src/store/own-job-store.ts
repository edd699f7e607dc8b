/** The part of the storage contract with which accounts cancel, delete and read their own jobs. */
import type { InputPrices } from '../job/cost.ts'
import type { Expiry } from './expiry.ts'
import type { Cancelled, Deleted } from './operator-store.ts'

export interface OwnJobStore {
  /**
   * Works like `cancelJob`, but returns `unknown` for a job of another account. The error records that the caller cancelled the
   * job. Earlier runs count. If a node holds the job, one call with its input tokens counts too, because it may have been sent.
   */
  cancelOwnJob(cancel: OwnCancel): Promise<Cancelled>

  /** Returns null if no node holds the job, if it belongs to another account, or if its messages exceed `maxBytes`. */
  heldMessages(account: string, jobId: string, maxBytes: number): Promise<string | null>

  /** Returns the request with only the beginning of its messages; null if the account cannot read the job. */
  readRequest(read: OwnRequestRead): Promise<OwnRequest | null>

  /**
   * Works like `deleteJob`, but returns `unknown` if the account cannot read the job. Without `dropCallback`, a job with a
   * pending callback is not deleted.
   */
  deleteOwnJob(deletion: OwnDeletion): Promise<OwnDeleted>
}

export interface OwnCancel {
  readonly account: string
  readonly jobId: string
  readonly nowMs: number
  /** If null, the stored number is used, which may be only an upper bound. */
  readonly inputTokens: number | null
  /** The price applies to a call that counts because a node holds the job. */
  readonly inputPrices?: InputPrices
}

export interface OwnRequestRead {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
  readonly messageChars: number
}

export interface OwnRequest {
  readonly model: string
  readonly responseFormatJson: string
  readonly messagesStart: string
  readonly messageBytes: number
}

export interface OwnDeletion {
  readonly account: string
  readonly jobId: string
  readonly dropCallback: boolean
  readonly expiry: Expiry
}

export type OwnDeleted = Deleted | 'callback owed'
