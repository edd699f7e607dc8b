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
   * Takes up to `limit` due callbacks of a delivery queue, longest due first, and counts an attempt of each. No other node
   * takes them until this one is dead (`Store.rescue`), and this one does not take them again before `leaseUntilMs`: by then,
   * the response to this call must have been lost. Their bodies are not read, so memory use does not depend on their sizes,
   * and the attempts are committed before `loadCallback` reads the first body.
   */
  takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]>

  /** The same for callbacks that this node deferred, due or not, unless something has happened to them since; in the order given. */
  takeDeferred(take: TakeDeferred): Promise<DueCallback[]>

  /**
   * Reads the body of a callback that was taken under this attempt. Null if it was taken again since, or its job is gone.
   * Bodies that are loaded together are read together, up to `BODY_READ_BYTES` at a time.
   */
  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null>

  /**
   * Records an attempt and its result. Returns false and changes nothing if the callback was taken again since, or its job is
   * gone; so a second call changes nothing.
   */
  recordCallback(record: AttemptRecord): Promise<boolean>

  /**
   * Returns callbacks of this node untried: their attempt does not count, they are due at the given times, and no other node
   * takes them until this one is dead. Those that were taken again since are not changed.
   */
  deferCallbacks(node: string, deferred: readonly DeferredCallback[]): Promise<void>

  /** Counts owed and failed callbacks, up to a bound; see `CallbackDepth`. */
  callbackDepth(): Promise<CallbackDepth>
}

/** How operators search and replay callbacks, also from another process while a server is running. */
export interface CallbackRecords {
  /** Newest job first. Its cost is bounded like that of `JobSearchStore.searchJobs`. */
  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>>

  /** The callback of a job with its stored attempts; null if there is none. */
  findCallback(jobId: string): Promise<CallbackDetails | null>

  /**
   * Makes a callback due now with the full number of attempts, whether it was delivered, has failed or waits for its next
   * attempt. A callback that is being sent is not changed; one whose job has expired is unknown.
   */
  replayCallback(jobId: string, expiry: Expiry): Promise<Replay>

  /** The same for callbacks that had failed before now, in one transaction; returns how many there were. */
  replayFailedCallbacks(filter: FailedFilter, expiry: Expiry): Promise<number>
}

export interface FailedFilter {
  readonly account?: string
  readonly limit: number
}

export type Replay = 'replayed' | 'in progress' | 'unknown'

/** Callbacks that were never tried are queued separately from retries, so that many retries do not delay a new callback. */
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

/** A callback, and how many attempts it had when it was deferred: if it has more, something has happened to it since. */
export interface TakenBefore {
  readonly jobId: string
  readonly attempts: number
}

/** A taken callback, without its body. */
export interface DueCallback {
  readonly jobId: string
  /** 1 for the first attempt, incremented for each later one. It fences what is recorded. */
  readonly attempt: number
  /**
   * Its place in the schedule: the same, but counted since the last replay, and without attempts that a stopping server
   * aborted.
   */
  readonly tries: number
  readonly account: string
  readonly url: string
  /** About the size of the body: the bytes of the callback and of the job's outcome, as they are stored. */
  readonly bodyBytes: number
  /** When it became owed: when the job finished, or by the last replay. */
  readonly owedSinceMs: number
}

export type CallbackToLoad = Pick<DueCallback, 'jobId' | 'attempt' | 'bodyBytes'>

/** The body of a callback, and the secrets that sign it. */
export interface CallbackBody {
  readonly callback: Callback
  /** The settled job. */
  readonly view: JobRecord
  /** When it was settled. */
  readonly endedAtMs: number
  /** The secrets that were valid when it was loaded; null if the account was deleted. */
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
  /** Permanently. */
  | { readonly kind: 'failed' }
  /** `counts`: whether the attempt counts in the schedule. */
  | { readonly kind: 'due'; readonly atMs: number; readonly counts: boolean }

/** One attempt, as it is stored and shown. */
export interface CallbackAttempt {
  /** Missing numbers are attempts whose process exited before it could record them. */
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

/** `owed`: an attempt is due or in progress. `failed`: there are no further attempts unless it is replayed. */
export const CALLBACK_STATES = ['owed', 'delivered', 'failed'] as const
export type CallbackState = (typeof CALLBACK_STATES)[number]

export interface CallbackFilter {
  readonly state?: CallbackState
  readonly account?: string
  /** Only jobs before this one, the last of the previous page. */
  readonly beforeJobId?: string
  readonly limit: number
}

/** The range of callbacks to scan, in the order of their jobs, and the filter. */
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
  /** Only the names: the values may be secrets of the receiver. */
  readonly headerNames: readonly string[]
  readonly payloadJson: string
  /** Of what its body reports an event, such as `response`; null if its body is that of SPEC §6. */
  readonly event: string | null
  readonly inProgress: boolean
  /** Oldest first; if there are very many, the oldest are deleted (`MAX_ATTEMPTS_LENGTH`). */
  readonly log: readonly CallbackAttempt[]
}

/** Each count stops at `MAX_COUNTED`. */
export interface CallbackDepth {
  readonly owed: number
  readonly failed: number
  /** When the earliest of them is or was due; null if none are owed. */
  readonly earliestDueMs: number | null
}

export const MAX_COUNTED = 10_000

/** Maximum characters of the stored attempts of one callback; beyond this, the oldest is deleted. */
export const MAX_ATTEMPTS_LENGTH = 65_536
