/** Pending callbacks: the part of the storage contract for deliveries, and for operators who search and replay callbacks. */
import type { Callback } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { Secrets } from './account-store.ts'
import type { Page } from './chunked-search.ts'
import type { Expiry } from './expiry.ts'

/** All bodies may not fit into memory, so one read returns at most this many bytes, or a single larger body. */
export const BODY_READ_BYTES = 8 * 1024 * 1024

export interface CallbackStore extends CallbackRecords {
  /**
   * Takes up to `limit` due callbacks of a delivery queue, the longest due first, and counts an attempt of each. Until the
   * attempt is recorded, no other node takes the callback while this one lives (`Store.rescue`). This node can take it again
   * from `leaseUntilMs` on, in case the response to this call was lost. `loadCallback` reads the bodies, which may be large.
   */
  takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]>

  /** Takes callbacks that this node deferred, due or not, in the order of `deferred`. Skips callbacks that were taken since. */
  takeDeferred(take: TakeDeferred): Promise<DueCallback[]>

  /** Returns null if the attempt is no longer in progress, or the job was deleted. Concurrent calls share reads. */
  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null>

  /** Returns false and changes nothing unless this is the latest attempt of a pending callback. */
  recordCallback(record: AttemptRecord): Promise<boolean>

  /**
   * Defers callbacks of this node. Their attempts do not count, and no other node takes them while this one lives. Callbacks
   * that were taken again since do not change.
   */
  deferCallbacks(node: string, deferred: readonly DeferredCallback[]): Promise<void>

  /** Counting stops at `MAX_COUNTED`. */
  callbackDepth(): Promise<CallbackDepth>
}

/** Operators also use these methods from another process, while a server is running. */
export interface CallbackRecords {
  /** Returns callbacks, newest job first. The cost is bounded like that of `JobSearchStore.searchJobs`. */
  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>>

  findCallback(jobId: string): Promise<CallbackDetails | null>

  /**
   * Makes a callback due now with the full number of attempts, unless it is being sent. Returns `unknown` if there is no such
   * callback, or if its job has expired.
   */
  replayCallback(jobId: string, expiry: Expiry): Promise<Replay>

  /** Replays up to `limit` callbacks that failed before now, in one transaction, and returns how many. */
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

export interface TakenBefore {
  readonly jobId: string
  readonly attempts: number
}

export interface DueCallback {
  readonly jobId: string
  /** Attempts are numbered from 1. The record of the result must name the attempt. */
  readonly attempt: number
  /** The place in the retry schedule. Replays restart the schedule. Attempts that a shutdown aborted do not count. */
  readonly tries: number
  readonly account: string
  readonly url: string
  readonly bodyBytes: number
  /** The callback has been pending since its job finished or since its last replay. */
  readonly owedSinceMs: number
}

export type CallbackToLoad = Pick<DueCallback, 'jobId' | 'attempt' | 'bodyBytes'>

export interface CallbackBody {
  readonly callback: Callback
  readonly view: JobRecord
  readonly endedAtMs: number
  /** The secrets are null if the account was deleted. */
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
  | { readonly kind: 'failed' }
  /** If `counts` is false, the attempt does not count in the retry schedule. */
  | { readonly kind: 'due'; readonly atMs: number; readonly counts: boolean }

export interface CallbackAttempt {
  /**
   * Attempts are numbered from 1. A number is missing if a process ended before it recorded the attempt, or if the log became
   * too long.
   */
  readonly attempt: number
  readonly atMs: number
  readonly ms: number
  readonly status: number | null
  readonly error: string | null
  /** At most 1 KiB of the response body is stored. */
  readonly answer: string | null
}

export interface DeferredCallback {
  readonly jobId: string
  readonly attempt: number
  readonly dueAtMs: number
}

/** While a callback is `owed`, an attempt is due, now or later, or in progress. */
export const CALLBACK_STATES = ['owed', 'delivered', 'failed'] as const
export type CallbackState = (typeof CALLBACK_STATES)[number]

export interface CallbackFilter {
  readonly state?: CallbackState
  readonly account?: string
  readonly beforeJobId?: string
  readonly limit: number
}

export interface CallbackScan {
  readonly state: CallbackState | null
  readonly account: string | null
  readonly beforeId: string
  readonly rows: number
  /** The scan may end after this many matches. */
  readonly enough: number
}

export interface CallbackSummary {
  readonly jobId: string
  readonly account: string
  readonly url: string
  readonly state: CallbackState
  /** An attempt in progress counts. */
  readonly attempts: number
  /** The time is null while an attempt is in progress, and after the callback has ended. */
  readonly dueAtMs: number | null
  readonly endedAtMs: number | null
  readonly last: CallbackAttempt | null
}

export interface CallbackDetails extends CallbackSummary {
  readonly jobStatus: string
  /** Values may be secrets of the receiver, so only the names are returned. */
  readonly headerNames: readonly string[]
  readonly payloadJson: string
  /** The kind of event in the body, such as `response`; null for the callback of a job. */
  readonly event: string | null
  readonly inProgress: boolean
  /** The oldest attempts come first. */
  readonly log: readonly CallbackAttempt[]
}

export interface CallbackDepth {
  readonly owed: number
  readonly failed: number
  readonly earliestDueMs: number | null
}

export const MAX_COUNTED = 10_000

/** If the log of a callback has more characters, recording an attempt deletes the oldest one. */
export const MAX_ATTEMPTS_LENGTH = 65_536
