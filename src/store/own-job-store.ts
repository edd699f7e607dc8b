/** The part of the storage contract with which accounts cancel, delete and read their own jobs. */
import type { InputPrices } from '../job/cost.ts'
import type { Expiry } from './expiry.ts'
import type { Cancelled, Deleted } from './operator-store.ts'

export interface OwnJobStore {
  /**
   * Like `cancelJob`, but returns `unknown` for a job of another account. The error records that the caller cancelled the job.
   * The usage of earlier runs counts. If a node holds the job, one call with the job's input tokens counts as well, because the
   * node may have sent it already.
   */
  cancelOwnJob(cancel: OwnCancel): Promise<Cancelled>

  /**
   * Returns the messages of an assigned job of the account, as JSON text. Returns null for any other job, or if the messages
   * exceed `maxBytes`.
   */
  heldMessages(account: string, jobId: string, maxBytes: number): Promise<string | null>

  /**
   * Returns the request of a job that the account can read, with only the beginning of the messages. Returns null for any other
   * job.
   */
  readRequest(read: OwnRequestRead): Promise<OwnRequest | null>

  /**
   * Like `deleteJob`, but returns `unknown` for a job that the account cannot read. A job with a pending callback is deleted
   * only if `dropCallback` is true.
   */
  deleteOwnJob(deletion: OwnDeletion): Promise<OwnDeleted>
}

export interface OwnCancel {
  readonly account: string
  readonly jobId: string
  readonly nowMs: number
  /** The counted input tokens; null to use the stored number, which may be only an upper bound. */
  readonly inputTokens: number | null
  /** Prices the call that counts if a node holds the job; absent while no model has a price. */
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
  /** The size of all messages as JSON text. */
  readonly messageBytes: number
}

export interface OwnDeletion {
  readonly account: string
  readonly jobId: string
  readonly dropCallback: boolean
  readonly expiry: Expiry
}

export type OwnDeleted = Deleted | 'callback owed'
