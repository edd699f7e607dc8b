/**
 * The storage contract, which every store implements. This file has the life of a job; the other parts are next to it:
 *
 * - `account-store.ts`: accounts, their keys and secrets, and admin tokens
 * - `callback-store.ts`: pending callbacks, and how operators see and replay them
 * - `node-store.ts`: leases of nodes, and what other nodes report
 * - `usage-store.ts`: what accounts have used, and jobs that wait for the budget of their account
 * - `file-store.ts`: files of accounts, in pieces
 * - `batch-store.ts`: batches of accounts, whose lines and results are in files
 * - `held-request-store.ts`: held requests, and how repeated requests join their jobs
 * - `job-search-store.ts`: jobs as operators see them
 * - `operator-store.ts`: cancelling and deleting jobs, deleting accounts, scrubbing, the audit log
 * - `rerun-store.ts`: reruns of finished jobs
 * - `own-job-store.ts`: how accounts cancel, delete and read their own jobs
 *
 * `test/store-contract/` has one suite of tests for all of it, which every implementation passes.
 *
 * Guarantees of every method:
 * - Each call is atomic: it happens completely or not at all.
 * - A write that resolved is durable: it survives a power cut.
 * - A write that rejected with `StoreUnavailable` may be tried again; a rejected `accept` has stored nothing. A write that
 *   rejected with `WriteRejected` has changed nothing, and has not harmed the writes that were committed together with it.
 * - Callers make single calls. The store commits calls that arrive together in one transaction, in their order.
 * - The caller passes the time. A store uses no clock, except the database's for leases.
 */
import type { ClaimedJob, Job, JobError, Outcome, Usage } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { AccountStore, AdminTokenStore } from './account-store.ts'
import type { BatchStore } from './batch-store.ts'
import type { CallbackStore } from './callback-store.ts'
import type { Expiry } from './expiry.ts'
import type { FileStore } from './file-store.ts'
import type { HeldRequestStore } from './held-request-store.ts'
import type { JobSearchStore } from './job-search-store.ts'
import type { Claim, NodeStore } from './node-store.ts'
import type { AdminActionStore, AuditStore } from './operator-store.ts'
import type { OwnJobStore } from './own-job-store.ts'
import type { RerunStore } from './rerun-store.ts'
import type { CostCapStore, UsageStore } from './usage-store.ts'

export interface Store
  extends AccountStore,
    AdminTokenStore,
    AuditStore,
    BatchStore,
    CostCapStore,
    CallbackStore,
    AdminActionStore,
    FileStore,
    HeldRequestStore,
    JobSearchStore,
    NodeStore,
    OwnJobStore,
    RerunStore,
    UsageStore {
  /**
   * Stores all jobs of the acceptance or none. Rejects with `UnknownAccount`, and stores nothing, if the account does not
   * exist.
   *
   * If the idempotency key is already stored for the account, `accept` stores nothing. It returns the jobs of the earlier
   * request (`repeated`), or `conflict` if that request was different. If none of the earlier jobs still exists, the request is
   * accepted again. Without a key, a second call may store the jobs again, so callers must not repeat it.
   *
   * A job with a cached response (`NewJob.fingerprint`) is stored as completed at once, with its usage and its callback.
   *
   * With a cost cap, `accept` stores nothing and returns `over cost cap` if the jobs could exceed the cap, even if other nodes
   * accept jobs at the same time. Jobs that a cached response completes reserve nothing; neither do jobs whose model has no
   * price.
   */
  accept(acceptance: Acceptance): Promise<Accepted>

  /** Returns `repeated` or `conflict` like `accept` if the key is already stored, otherwise null. Stores nothing. */
  findEarlier(account: string, idempotency: Idempotency, nowMs: number): Promise<Earlier | null>

  /**
   * Assigns up to `limit` queued jobs to the node and counts an attempt of each. Two nodes never get the same job. The cost
   * does not grow with the length of the queue. A second call claims other jobs. If the response to a call is lost, `claimsOf`
   * returns its jobs.
   */
  claim(node: string, limit: number, nowMs: number, from: ClaimFrom): Promise<Claimed>

  /** Returns the texts of a job, for the node that holds it; null if the job no longer exists. */
  readTexts(jobId: string): Promise<JobTexts | null>

  /**
   * Returns the routes with queued jobs, and the earliest deadline of queued jobs. The cost grows with the number of routes,
   * not of jobs.
   */
  queued(): Promise<Queued>

  /** Counts queued suspects, at almost no cost if there are none. */
  queuedSuspects(): Promise<QueuedSuspects>

  /**
   * Records that the node starts to execute these suspects. From then on, a crash of the node counts against them. Claims that
   * the node no longer holds do not change.
   */
  recordStarts(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Fails up to `limit` queued jobs, including suspects, that have waited too long for model servers or whose deadline has
   * passed, in any order. Jobs that a node holds do not change. Each job is settled with the usage and receipt of its earlier
   * runs. Returns the failed jobs; fewer than `limit` means that no overdue job is left.
   */
  failOverdue(overdue: Overdue, nowMs: number, limit: number): Promise<readonly FailedJob[]>

  /**
   * Stores the outcome, its usage, the cached response and the pending callback, if this node still holds the job under this
   * attempt. A second call changes nothing, and neither does a call for a claim that the node has lost.
   */
  settle(settlement: Settlement): Promise<Settled>

  /** Returns the jobs that this node still holds to the head of their queues. A second call changes nothing. */
  release(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Like `release`, for jobs that wait for a model server. Also stores their route and the usage of their runs so far, which
   * the next claim returns. Claims, rescues and calls of `release` do not change them.
   */
  releaseWaiting(node: string, releases: readonly WaitingRelease[]): Promise<void>

  /**
   * Returns the jobs of dead nodes to the head of their queues, and makes the callbacks of these nodes due. Every other node
   * without a valid lease is dead. Returns the number of jobs. If several nodes call this, only one rescues each job.
   *
   * This adds 1 to the crash count of each job, except suspects whose start was not recorded under their current attempt
   * (`recordStarts`). It also records which jobs crashed alone (`ClaimedJob.crashedAlone`). If a node was only paused,
   * `revertCrashes` undoes the crash counts.
   */
  rescue(node: string, nowMs: number): Promise<number>

  /**
   * Returns the cached response of an identical job, or null. Returns a promise only if the store must read the database. The
   * fingerprint includes the account, so accounts never share responses.
   */
  findResponse(fingerprint: string, nowMs: number): Promise<string | null> | null

  /**
   * Returns the job as its account may see it; null if the job does not exist, belongs to another account, or has expired. If
   * the result and the error exceed `maxBytes` together, both are left out. Without `maxBytes`, both are always returned.
   */
  read(account: string, jobId: string, expiry: Expiry, maxBytes?: number): Promise<ReadJob | null>

  /**
   * Returns those of the jobs, of any account, that have finished. The results and errors of several jobs have at most
   * `maxBytes` together; call this again for jobs that were left out because of their size.
   */
  readEnded(jobIds: readonly string[], maxBytes?: number): Promise<EndedJob[]>

  /** Returns those of the jobs, of any account, that do not exist, because they were never stored or were deleted. */
  findMissing(jobIds: readonly string[]): Promise<string[]>

  /**
   * Deletes a bounded number of expired jobs, cached responses and idempotency keys, and some of what `purgeFiles` deletes.
   * Returns true if there may be more.
   */
  expire(expiry: Expiry): Promise<boolean>

  /**
   * Returns the length of the queue in constant time. The length is exact up to some thousands, and may be an estimate beyond
   * that.
   */
  depth(): Promise<Depth>

  /** Returns the length of each queue of each route, including suspects, up to `COUNTED_OF_QUEUE`. */
  queueDepths(): Promise<readonly QueueDepth[]>

  /** Resolves if the store can write now. */
  ping(): Promise<void>

  /** Finishes pending calls and closes. A second call resolves together with the first. */
  close(): Promise<void>
}

export type ClaimFrom = ClaimOfRoute | ClaimOfAccount | ClaimOfSuspects

/**
 * A walk of a route: claims the route's jobs in order of their turns, from the route's position on. The position is where the
 * last walk ended, or that of an earlier job that joined the queue since. The walk skips suspects, the jobs in `exceptJobs`,
 * and those of `exceptAccounts`, which `ClaimOfAccount` claims later. It reads at most `WALK_ROWS` jobs in addition to those
 * that it claims.
 */
export interface ClaimOfRoute {
  readonly of: 'route'
  readonly route: string
  readonly exceptAccounts: readonly string[]
  /** At most a few hundred. The position does not move past these jobs, so that later walks find them. */
  readonly exceptJobs: readonly string[]
  /** If true, the walk does not move the position, and `mayHaveMore` may be false although more jobs are queued. */
  readonly keepsPlace: boolean
}

/**
 * Claims the jobs of one account on one route in order of their turns, including those that walks skipped, but not suspects.
 */
export interface ClaimOfAccount {
  readonly of: 'account'
  readonly route: string
  readonly account: string
  readonly exceptJobs: readonly string[]
}

/** Claims suspects with exactly this crash count, in order of their turns. */
export interface ClaimOfSuspects {
  readonly of: 'suspects'
  readonly crashCount: number
  /**
   * A suspect with this crash count that crashed alone must fail, so it is claimed only when all of its crashes are confirmed.
   */
  readonly maxCrashCount: number
  readonly exceptRoutes: readonly string[]
}

export const WALK_ROWS = 1024

/** A claim returns the messages, response format and callback of a job if they have at most this size together. */
export const INLINE_TEXT_BYTES = 8192

export interface Claimed {
  readonly jobs: readonly (ClaimedJob | ClaimedLargeJob)[]
  /** True if the claim reached its limit of jobs, or of rows to read. */
  readonly mayHaveMore: boolean
}

export type JobTexts = Pick<Job, 'messagesJson' | 'responseFormatJson' | 'callbackJson'>

/** A claimed job whose texts are too large to be returned with the claim; `readTexts` returns them. */
export interface ClaimedLargeJob extends Omit<ClaimedJob, keyof JobTexts> {
  readonly textBytes: number
}

export interface QueuedSuspects {
  /** How many suspects are queued, up to 10,000. */
  readonly queued: number
  /** The highest crash count of queued suspects; 0 if there are none. */
  readonly mostCrashes: number
  /** How many suspects have that crash count, up to 10,000. */
  readonly withMost: number
}

export interface Queued {
  /** The routes with queued jobs other than suspects. An empty text stands for jobs whose route is unknown. */
  readonly routes: readonly string[]
  /** The earliest deadline of any queued job; null if none has one. */
  readonly nextDeadlineMs: number | null
}

export type Overdue = PastPatience | PastDeadline

export interface PastDeadline {
  readonly route: null
  readonly error: JobError
}

/**
 * Queued jobs of the route that have waited for model servers for `patienceMs` in total. The current wait began when the job
 * was created or last released, but not before `unavailableSinceMs`. Waits that ended before the last release count too.
 */
export interface PastPatience {
  readonly route: string
  /** Null for the jobs of all accounts. */
  readonly account: string | null
  readonly unavailableSinceMs: number
  readonly patienceMs: number
  readonly error: JobError
}

export interface FailedJob {
  readonly jobId: string
  readonly account: string
  readonly model: string
  readonly createdAtMs: number
  readonly hasCallback: boolean
  readonly usage: Usage
}

export interface WaitingRelease extends Claim {
  readonly route: string
  /** The usage and errors of earlier runs, as `queue/earlier-runs.ts` writes them. */
  readonly earlierJson: string
  /** When the job was released, and how long it had waited for model servers until then. */
  readonly sinceMs: number
  readonly waitedMs: number
}

export interface Acceptance {
  readonly node: string
  readonly jobs: readonly NewJob[]
  readonly idempotency: Idempotency | null
  readonly nowMs: number
  /** How long the write may wait to share a transaction with others; absent not to wait. */
  readonly mayWaitMs?: number
  /**
   * The maximum cost of the account in the current month, in millionths of the currency; absent for no cap. It covers the jobs
   * that finished this month and what open jobs have reserved.
   */
  readonly costCap?: number
}

export interface NewJob {
  readonly job: Job
  /** True if the accepting node runs the job at once. Then the job is stored as claimed by that node, with attempt 1. */
  readonly handedOff: boolean
  /** How far this job moves its account's next turn on its route: 1000 divided by the tier's weight. */
  readonly step: number
  /** The name of the queue for the job's targets and priority, from `queueName` (`job/priority.ts`). */
  readonly route: string
  /**
   * True if a request on the accepting node waits for the job. Then that node is notified if another one settles the job, and
   * gets the text of a cached response.
   */
  readonly awaited: boolean
  /** Identifies the cached response that would complete the job; null or absent if the job does not use the response cache. */
  readonly fingerprint?: string | null
}

export interface Idempotency {
  /** The value of the Idempotency-Key header, or the key of a held request or a rerun. */
  readonly key: string
  /** Identifies the request: the same key with a different fingerprint is a conflict. */
  readonly fingerprint: string
  readonly untilMs: number
}

export type Accepted =
  /** `answered`: the jobs that a cached response completed; absent if there are none. */
  { readonly kind: 'accepted'; readonly answered?: readonly AnsweredJob[] } | Earlier | OverCostCap

export interface OverCostCap {
  readonly kind: 'over cost cap'
  /** The account's cost in this month without these jobs, including what open jobs have reserved. */
  readonly used: number
}

/** The result for a request that reuses the key of an earlier one. */
export type Earlier =
  | { readonly kind: 'repeated'; readonly jobIds: readonly string[] }
  | { readonly kind: 'conflict' }

/** A job that a cached response completed when it was accepted. */
export interface AnsweredJob {
  readonly jobId: string
  /** Null if the job is not awaited. */
  readonly contentJson: string | null
}

export interface Settlement extends Claim {
  readonly node: string
  /** The public model name in the request, by which usage is summed. */
  readonly model: string
  readonly outcome: Outcome
  readonly usage: Usage
  readonly receiptJson: string
  /** Caches the answer for identical later jobs; null not to cache it. */
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
  readonly nowMs: number
  /** How long the write may wait to share a transaction with others; absent not to wait. */
  readonly mayWaitMs?: number
}

/** `stale`: another node holds the job, or the job was already settled. `gone`: the job no longer exists. */
export type Settled = 'settled' | 'stale' | 'gone'

export interface ReadJob extends JobRecord {
  /** The size of result and error if they exceed the limit of the read, and are therefore null; otherwise 0. */
  readonly omittedBytes: number
}

export interface EndedJob extends JobRecord {
  readonly cacheHit: boolean
}

export interface Depth {
  /** How many jobs are queued. */
  readonly waiting: number
  /** When the oldest queued job was created; null if there is none. */
  readonly oldestCreatedAtMs: number | null
  /** How many jobs nodes hold. */
  readonly assigned: number
}

export interface QueueDepth {
  /** The name of the queue, as in `NewJob`; empty for jobs whose route is unknown. */
  readonly route: string
  readonly jobs: number
  readonly oldestId: string
}

export const COUNTED_OF_QUEUE = 10_000

/** The database cannot write now (disk full, unreachable, too many writes queued), but may be able to later. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
}

/** The database permanently rejects the write because of its contents (a constraint, a type, a size). */
export class WriteRejected extends Error {
  override readonly name = 'WriteRejected'
}

/** The account of a new job does not exist, because it was deleted after its key was found. Nothing was stored. */
export class UnknownAccount extends Error {
  override readonly name = 'UnknownAccount'

  constructor() {
    super('The account of the job does not exist.')
  }
}
