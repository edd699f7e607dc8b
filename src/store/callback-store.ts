/** Owed callbacks: the part of the storage contract with the outbox that settling a job writes. */
import type { Callback } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { Secrets } from './account-store.ts'
import type { Expiry } from './expiry.ts'
import type { Page } from './pagination.ts'

/**
 * Bytes of bodies that a store reads at once. A server may owe many large callbacks at the same moment, more than its heap
 * can hold. A body that is larger than this is read alone.
 */
export const BODY_READ_BYTES = 8 * 1024 * 1024

export interface CallbackStore extends CallbackRecords {
  /**
   * Takes up to `limit` callbacks of a delivery queue that are due, the longest due first, and counts an attempt of each. No
   * other node takes them until this one is dead (`Store.rescue`), nor does this one before `leaseUntilMs`: by then the answer
   * to this call must have been lost. Their bodies are not read, so the memory that this takes does not depend on their sizes,
   * and the attempts are committed before `loadCallback` reads the first body.
   */
  takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]>

  /** The same for callbacks that this node deferred, due or not, if nothing has happened to them since. */
  takeDeferred(take: TakeDeferred): Promise<DueCallback[]>

  /**
   * Reads what is to be sent of a callback that was taken under this attempt. Null if it was taken again since or its job
   * is gone. Bodies that are loaded together are read together, up to `BODY_READ_BYTES` at a time.
   */
  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null>

  /**
   * Records an attempt and its result. False, and nothing changes, if the callback was taken again since or its job is gone;
   * so a second call changes nothing.
   */
  recordCallback(record: AttemptRecord): Promise<boolean>

  /**
   * Returns callbacks of this node untried: their attempt is not counted, they are due at the times given, and no other node
   * takes them until this one is dead. Those that were taken again since are left alone.
   */
  deferCallbacks(node: string, deferred: readonly DeferredCallback[]): Promise<void>

  /** What is owed and what has failed, counted up to a bound; see `CallbackDepth`. */
  callbackDepth(): Promise<CallbackDepth>
}

/** What operators see of callbacks, and how they send them again; also in a process beside a running server. */
export interface CallbackRecords {
  /** Newest job first. Its cost is bounded as that of `JobSearchStore.searchJobs` is. */
  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>>

  /** The callback of a job with the attempts that are stored; null if there is none. */
  findCallback(jobId: string): Promise<CallbackDetails | null>

  /**
   * Makes a callback due now, whether it was delivered, has failed or waits for its next attempt, with all the attempts
   * of a new one. One that an attempt sends just now is left alone; one whose job has expired is unknown.
   */
  replayCallback(jobId: string, expiry: Expiry): Promise<Replay>

  /** The same for those that had failed before now, in one transaction; returns how many there were. */
  replayFailedCallbacks(filter: FailedFilter, expiry: Expiry): Promise<number>
}

export interface FailedFilter {
  readonly account?: string
  readonly limit: number
}

export type Replay = 'replayed' | 'in progress' | 'unknown'

/** Callbacks that were never tried are queued apart from those that were, so that many retries delay no new one. */
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

/** A callback, and how many attempts it had when it was deferred: with one more, something has happened to it since. */
export interface TakenBefore {
  readonly jobId: string
  readonly attempts: number
}

/** A callback that was taken, without its body. */
export interface DueCallback {
  readonly jobId: string
  /** 1 for the first attempt, and one more for each later one: the fence of what is recorded. */
  readonly attempt: number
  /** Its place in the schedule: the same, but counted from the last replay, and without attempts that a stopping server cut off. */
  readonly tries: number
  readonly account: string
  readonly url: string
  /** About the size of the body: the bytes of the callback and of the job's outcome, as they are stored. */
  readonly bodyBytes: number
  /** When it became owed: at the job's end, or by the last replay. */
  readonly owedSinceMs: number
}

export type CallbackToLoad = Pick<DueCallback, 'jobId' | 'attempt' | 'bodyBytes'>

/** What is sent of a callback, and what it is signed with. */
export interface CallbackBody {
  readonly callback: Callback
  /** The settled job. */
  readonly view: JobRecord
  /** Those in force when it was loaded. */
  readonly secrets: Secrets
}

export interface AttemptRecord {
  readonly jobId: string
  readonly attempt: CallbackAttempt
  readonly next: CallbackNext
  readonly nowMs: number
}

export type CallbackNext =
  | { readonly kind: 'delivered' }
  /** For good. */
  | { readonly kind: 'failed' }
  /** `counts`: whether the attempt counts in the schedule. */
  | { readonly kind: 'due'; readonly atMs: number; readonly counts: boolean }

/** One attempt, as it is stored and shown. */
export interface CallbackAttempt {
  /** Missing numbers are attempts whose process ended before it could record them. */
  readonly attempt: number
  readonly atMs: number
  readonly ms: number
  /** Of the receiver's answer; null where none came. */
  readonly status: number | null
  /** Why no answer came; null where one did. */
  readonly error: string | null
  /** The first 1 KiB of the answer's body; null where none came. */
  readonly answer: string | null
}

export interface DeferredCallback {
  readonly jobId: string
  readonly attempt: number
  readonly dueAtMs: number
}

/** `owed`: an attempt is still to be made, or is in progress. `failed`: no further attempt is made unless it is replayed. */
export const CALLBACK_STATES = ['owed', 'delivered', 'failed'] as const
export type CallbackState = (typeof CALLBACK_STATES)[number]

export interface CallbackFilter {
  readonly state?: CallbackState
  readonly account?: string
  /** Jobs before this one only: the last of the page before. */
  readonly beforeJobId?: string
  readonly limit: number
}

/** The callbacks to scan, in the order of their jobs, and which of them match. */
export interface CallbackScan {
  readonly state: CallbackState | null
  readonly account: string | null
  readonly beforeId: string
  readonly rows: number
  /** Matches after which a chunk may end. */
  readonly enough: number
}

export interface CallbackSummary {
  readonly jobId: string
  readonly account: string
  readonly url: string
  readonly state: CallbackState
  /** Attempts so far, including one in progress. */
  readonly attempts: number
  /** When the next attempt is due; null unless it is owed and no attempt is in progress. */
  readonly dueAtMs: number | null
  /** When it was delivered or has failed; null while it is owed. */
  readonly endedAtMs: number | null
  /** The last attempt that was recorded. */
  readonly last: CallbackAttempt | null
}

export interface CallbackDetails extends CallbackSummary {
  readonly jobStatus: string
  /** Names only: the values may be secrets of the receiver. */
  readonly headerNames: readonly string[]
  readonly payloadJson: string
  readonly inProgress: boolean
  /** Oldest first; of very many the oldest are deleted (`MAX_ATTEMPTS_LENGTH`). */
  readonly log: readonly CallbackAttempt[]
}

/** Each count stops at `MAX_COUNTED`. */
export interface CallbackDepth {
  readonly owed: number
  readonly failed: number
  /** When the earliest of them is due, or was; null where none is owed. */
  readonly earliestDueMs: number | null
}

export const MAX_COUNTED = 10_000

/** Characters of the attempts that are stored of one callback; beyond it the oldest is deleted. */
export const MAX_ATTEMPTS_LENGTH = 65_536
