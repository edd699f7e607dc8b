/**
 * Pending callbacks: the part of the storage contract for deliveries, and for operators who search and replay callbacks.
 * Settling a job makes its callback pending.
 */
import type { Callback } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { Secrets } from './account-store.ts'
import type { Page } from './chunked-search.ts'
import type { Expiry } from './expiry.ts'

/**
 * Maximum bytes of the bodies that a store reads at once, because all pending callbacks may not fit into memory. A larger body
 * is read alone.
 */
export const BODY_READ_BYTES = 8 * 1024 * 1024

export interface CallbackStore extends CallbackRecords {
  /**
   * Takes up to `limit` due callbacks of a delivery queue, the longest due first, and counts an attempt of each. No other node
   * takes them while this one lives (`Store.rescue`). From `leaseUntilMs` on, this node can take them again, because the
   * response to this call must have been lost. The result does not contain bodies, so its memory does not depend on their
   * sizes; `loadCallback` reads them.
   */
  takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]>

  /** Takes callbacks that this node deferred, due or not, in the given order. Skips those that have changed since. */
  takeDeferred(take: TakeDeferred): Promise<DueCallback[]>

  /**
   * Reads the body of a callback that was taken under this attempt. Returns null if it was taken again since, or its job was
   * deleted. Concurrent calls share reads of up to `BODY_READ_BYTES`.
   */
  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null>

  /**
   * Records an attempt and its result. Returns false and changes nothing if the callback was taken again since, or its job was
   * deleted. A second call returns false.
   */
  recordCallback(record: AttemptRecord): Promise<boolean>

  /**
   * Defers callbacks of this node to the given times. Their attempts do not count, and no other node takes them while this one
   * lives. Callbacks that were taken again since do not change.
   */
  deferCallbacks(node: string, deferred: readonly DeferredCallback[]): Promise<void>

  /** Counts pending and failed callbacks, up to `MAX_COUNTED` each. */
  callbackDepth(): Promise<CallbackDepth>
}

/** What operators do with callbacks, also from another process while a server is running. */
export interface CallbackRecords {
  /** Returns callbacks, newest job first. The cost is bounded like that of `JobSearchStore.searchJobs`. */
  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>>

  /** Returns null if the job has no callback. */
  findCallback(jobId: string): Promise<CallbackDetails | null>

  /**
   * Makes a callback due now with the full number of attempts, whether it was delivered, has failed or waits for a retry. A
   * callback that is being sent does not change. Returns `unknown` if the job has expired.
   */
  replayCallback(jobId: string, expiry: Expiry): Promise<Replay>

  /** Replays the callbacks that failed before now, in one transaction, and returns how many. */
  replayFailedCallbacks(filter: FailedFilter, expiry: Expiry): Promise<number>
}

export interface FailedFilter {
  readonly account?: string
  readonly limit: number
}

export type Replay = 'replayed' | 'in progress' | 'unknown'

/** First attempts and retries have separate queues, so that many retries do not delay a new callback. */
export const DELIVERY_QUEUES = ['first', 'retry'] as const
export type DeliveryQueueName = (typeof DELIVERY_QUEUES)[number]

export interface TakeCallbacks {
  readonly node: string
  readonly queue: DeliveryQueueName
  readonly limit: number
  readonly nowMs: number
  readonly leaseUntilMs: number
}

export interface TakeDeferred {
  readonly node: string
  readonly deferred: readonly TakenBefore[]
  readonly leaseUntilMs: number
}

/** If the number of attempts is higher now, the callback has changed since it was deferred. */
export interface TakenBefore {
  readonly jobId: string
  readonly attempts: number
}

export interface DueCallback {
  readonly jobId: string
  /** The number of the attempt, starting at 1. The record of its result must name it. */
  readonly attempt: number
  /**
   * The attempt's place in the retry schedule. A replay restarts the schedule. Attempts that a shutdown aborted do not count.
   */
  readonly tries: number
  readonly account: string
  readonly url: string
  /** The approximate size of the body: the stored bytes of the callback and of the outcome. */
  readonly bodyBytes: number
  /** When the job finished, or when the callback was last replayed. */
  readonly owedSinceMs: number
}

export type CallbackToLoad = Pick<DueCallback, 'jobId' | 'attempt' | 'bodyBytes'>

export interface CallbackBody {
  readonly callback: Callback
  /** The finished job, as its account sees it. */
  readonly view: JobRecord
  readonly endedAtMs: number
  /** The account's secrets at the time of loading; null if the account was deleted. */
  readonly secrets: Secrets | null
}

export interface AttemptRecord {
  readonly jobId: string
  readonly attempt: CallbackAttempt
  readonly next: CallbackNext
  readonly nowMs: number
}

export type CallbackNext =
  | { readonly kind: 'delivered' }
  /** The callback has failed permanently. */
  | { readonly kind: 'failed' }
  /** `counts`: whether the attempt counts in the retry schedule. */
  | { readonly kind: 'due'; readonly atMs: number; readonly counts: boolean }

/** One attempt, as it is stored and shown. */
export interface CallbackAttempt {
  /** Starts at 1. A number is missing if a process ended before it recorded the attempt. */
  readonly attempt: number
  readonly atMs: number
  readonly ms: number
  /** The status of the receiver's response; null if there was none. */
  readonly status: number | null
  /** Why there was no response; null if there was one. */
  readonly error: string | null
  /** The first 1 KiB of the response body; null if there was no response. */
  readonly answer: string | null
}

export interface DeferredCallback {
  readonly jobId: string
  readonly attempt: number
  readonly dueAtMs: number
}

/** `owed`: an attempt is due, now or later, or is in progress. `failed`: no attempt follows unless the callback is replayed. */
export const CALLBACK_STATES = ['owed', 'delivered', 'failed'] as const
export type CallbackState = (typeof CALLBACK_STATES)[number]

export interface CallbackFilter {
  readonly state?: CallbackState
  readonly account?: string
  /** Only jobs before this one, the last of the previous page. */
  readonly beforeJobId?: string
  readonly limit: number
}

/** A range of callbacks by the IDs of their jobs, and the filter. */
export interface CallbackScan {
  readonly state: CallbackState | null
  readonly account: string | null
  readonly beforeId: string
  readonly rows: number
  /** The scan may end early after this many matches. */
  readonly enough: number
}

export interface CallbackSummary {
  readonly jobId: string
  readonly account: string
  readonly url: string
  readonly state: CallbackState
  /** Attempts so far, including one in progress. */
  readonly attempts: number
  /** When the next attempt is due; null unless the callback is owed and no attempt is in progress. */
  readonly dueAtMs: number | null
  /** When the callback was delivered or has failed; null while it is owed. */
  readonly endedAtMs: number | null
  /** Null if no attempt was recorded. */
  readonly last: CallbackAttempt | null
}

export interface CallbackDetails extends CallbackSummary {
  readonly jobStatus: string
  /** Only the names, because values may be secrets of the receiver. */
  readonly headerNames: readonly string[]
  readonly payloadJson: string
  /** The event that the body reports, such as `response`; null for the callback of a job. */
  readonly event: string | null
  readonly inProgress: boolean
  /** Oldest first. The oldest are deleted when all together exceed `MAX_ATTEMPTS_LENGTH`. */
  readonly log: readonly CallbackAttempt[]
}

export interface CallbackDepth {
  readonly owed: number
  readonly failed: number
  /** When the earliest pending callback is or was due; null if none is pending. */
  readonly earliestDueMs: number | null
}

export const MAX_COUNTED = 10_000

/** Maximum characters of the stored attempts of one callback. Beyond this, the oldest attempts are deleted. */
export const MAX_ATTEMPTS_LENGTH = 65_536
