/** The part of the storage contract with which accounts cancel, delete and read their own jobs. */
import type { InputPrices } from '../job/cost.ts'
import type { Expiry } from './expiry.ts'
import type { Cancelled, Deleted } from './operator-store.ts'

export interface OwnJobStore {
  /**
   * Like `cancelJob`, but a job of another account is `unknown`. The error records that the caller cancelled the job. The usage
   * of earlier runs counts. If a node holds the job, one call with its input tokens counts too, because the call may be in
   * progress.
   */
  cancelOwnJob(cancel: OwnCancel): Promise<Cancelled>

  /**
   * Returns the messages of an assigned job of the account, as JSON text. Null for any other job, or if they exceed `maxBytes`.
   */
  heldMessages(account: string, jobId: string, maxBytes: number): Promise<string | null>

  /**
   * Returns the request of a job that the account can read, with only the beginning of the messages; null for any other job.
   */
  readRequest(read: OwnRequestRead): Promise<OwnRequest | null>

  /**
   * Like `deleteJob`, but a job that the account cannot read is `unknown`. A job whose callback is pending is deleted only if
   * `dropCallback` is true.
   */
  deleteOwnJob(deletion: OwnDeletion): Promise<OwnDeleted>
}

export interface OwnCancel {
  readonly account: string
  readonly jobId: string
  readonly nowMs: number
  /** The counted input tokens; null to use the job's own count, which may be only an upper bound. */
  readonly inputTokens: number | null
  /** The prices of the call that counts if a node holds the job; absent while no model has a price. */
  readonly inputPrices?: InputPrices
}

export interface OwnRequestRead {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
  /** How many characters of the messages' JSON text to return. */
  readonly messageChars: number
}

export interface OwnRequest {
  readonly model: string
  readonly responseFormatJson: string
  /** The beginning of the JSON text of the messages. */
  readonly messagesStart: string
  /** The size of the JSON text of all messages. */
  readonly messageBytes: number
}

export interface OwnDeletion {
  readonly account: string
  readonly jobId: string
  readonly dropCallback: boolean
  readonly expiry: Expiry
}

export type OwnDeleted = Deleted | 'callback owed'
