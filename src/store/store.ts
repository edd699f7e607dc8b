/**
 * The storage contract, which every store implements: its guarantees, and the methods for the life of a job. The other parts
 * are next to this file.
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
 * - What a call writes for one acceptance, job, batch, account, file or callback is written completely or not at all.
 * - A write that resolved is durable: it survives a power cut.
 * - A write that rejected with `StoreUnavailable` may be tried again. On Postgres, it may have been stored, if the connection
 *   broke and the outcome of the commit remained unknown.
 * - A write that rejected with `WriteRejected` has changed nothing, and has not harmed the writes that were committed together
 *   with it.
 * - Callers make single calls. The store may commit calls that arrive together in one transaction.
 * - The caller passes the time. Leases and absences of nodes are measured by the database's clock.
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
   * accepted again. A second call without a key stores the jobs again, or rejects.
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
   * Assigns up to `limit` queued jobs to the node and counts an attempt of each. Concurrent calls never get the same job. The
   * cost does not grow with the queue. If the response to a call is lost, `claimsOf` returns its jobs.
   */
  claim(node: string, limit: number, nowMs: number, from: ClaimFrom): Promise<Claimed>

  readTexts(jobId: string): Promise<JobTexts | null>

  /** The cost grows with the number of routes and of suspects, but not of other jobs. */
  queued(): Promise<Queued>

  queuedSuspects(): Promise<QueuedSuspects>

  /** From this call on, a crash of the node counts against these suspects. Claims that the node has lost do not change. */
  recordStarts(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Fails up to `limit` overdue jobs, including suspects, with the usage and receipt of their earlier runs. Jobs that a node
   * holds do not change. If the result has fewer than `limit` jobs, no other overdue job is left, except those that another
   * transaction has locked.
   */
  failOverdue(overdue: Overdue, nowMs: number, limit: number): Promise<readonly FailedJob[]>

  /**
   * Stores the outcome, its usage, the cached response and the pending callback, if this node still holds the job under this
   * attempt. Otherwise nothing changes, so a second call changes nothing.
   */
  settle(settlement: Settlement): Promise<Settled>

  /** Returns jobs to the head of their queues, if this node still holds them. A second call changes nothing. */
  release(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Works like `release`, for jobs that wait for a model server. The next claim returns the stored usage of their runs so far.
   * Claims, rescues and calls of `release` do not change this usage and the stored route.
   */
  releaseWaiting(node: string, releases: readonly WaitingRelease[]): Promise<void>

  /**
   * Returns the jobs of dead nodes to the head of their queues, and makes the callbacks of these nodes due. Every other node
   * without a valid lease is dead. Returns the number of jobs. If several nodes call this, only one rescues each job.
   *
   * This adds 1 to the crash count of each job, except suspects whose start was not recorded under their current attempt
   * (`recordStarts`). It also records which jobs crashed alone (`ClaimedJob.crashedAlone`). If a node was only paused,
   * `revertCrashes` undoes both.
   */
  rescue(node: string, nowMs: number): Promise<number>

  /**
   * Returns the cached response or null; a promise if the store must read the database. The fingerprint includes the account,
   * so accounts never share responses.
   */
  findResponse(fingerprint: string, nowMs: number): Promise<string | null> | null

  /**
   * Returns null if the job does not exist, belongs to another account, or has expired. Leaves out the result or error if it
   * exceeds `maxBytes`.
   */
  read(account: string, jobId: string, expiry: Expiry, maxBytes?: number): Promise<ReadJob | null>

  /**
   * Returns those of the jobs, of any account, that have finished. If there are several, this leaves out jobs beyond `maxBytes`
   * of results and errors; call it again for those.
   */
  readEnded(jobIds: readonly string[], maxBytes?: number): Promise<EndedJob[]>

  /** Returns those of the jobs, of any account, that were never stored or were deleted. */
  findMissing(jobIds: readonly string[]): Promise<string[]>

  /**
   * Deletes some of what has expired: jobs, cached responses, idempotency keys, batches and reruns. Also deletes some of what
   * `purgeFiles` deletes. Returns true if there may be more.
   */
  expire(expiry: Expiry): Promise<boolean>

  /**
   * The cost does not grow with the queue. The number of queued jobs is exact up to some thousands, and may be an estimate
   * beyond that.
   */
  depth(): Promise<Depth>

  /** Suspects count, too. In each queue, counting stops at `COUNTED_OF_QUEUE`. */
  queueDepths(): Promise<readonly QueueDepth[]>

  ping(): Promise<void>

  /** Pending calls are finished first. A second call resolves together with the first. */
  close(): Promise<void>
}

export type ClaimFrom = ClaimOfRoute | ClaimOfAccount | ClaimOfSuspects

/**
 * Walks through the queue of a route from the route's position on, in order of turns. The position is usually where the last
 * walk ended. It moves back to an earlier job that joins the queue, and on Postgres to the front from time to time. A walk
 * skips suspects, the jobs in `exceptJobs`, and those of `exceptAccounts`, which `ClaimOfAccount` claims later.
 */
export interface ClaimOfRoute {
  readonly of: 'route'
  readonly route: string
  readonly exceptAccounts: readonly string[]
  /** There are at most a few hundred. The position does not move past these jobs, so that later walks find them. */
  readonly exceptJobs: readonly string[]
  /** If true, the walk does not move the position, and `mayHaveMore` may be false although more jobs are queued. */
  readonly keepsPlace: boolean
}

/** The jobs include those that walks skipped, but not suspects. */
export interface ClaimOfAccount {
  readonly of: 'account'
  readonly route: string
  readonly account: string
  readonly exceptJobs: readonly string[]
}

export interface ClaimOfSuspects {
  readonly of: 'suspects'
  readonly crashCount: number
  /**
   * A suspect that crashed alone and has at least this crash count must fail, so it is claimed only if all of its crashes are
   * confirmed.
   */
  readonly maxCrashCount: number
  readonly exceptRoutes: readonly string[]
}

/** A walk reads at most this many jobs in addition to its limit, so that its cost is bounded. */
export const WALK_ROWS = 1024

/** A claim includes the texts of a job if they have at most this many bytes together. */
export const INLINE_TEXT_BYTES = 8192

export interface Claimed {
  readonly jobs: readonly (ClaimedJob | ClaimedLargeJob)[]
  /** True if the claim stopped at its limit of jobs, or stopped at its limit of rows and has moved the position. */
  readonly mayHaveMore: boolean
}

export type JobTexts = Pick<Job, 'messagesJson' | 'responseFormatJson' | 'callbackJson'>

export interface ClaimedLargeJob extends Omit<ClaimedJob, keyof JobTexts> {
  readonly textBytes: number
}

export interface QueuedSuspects {
  /** Counting stops at 10,000. */
  readonly queued: number
  readonly mostCrashes: number
  /** The number of suspects with the highest crash count, up to 10,000. */
  readonly withMost: number
}

export interface Queued {
  /** An empty text stands for jobs whose route is unknown. Suspects do not count. */
  readonly routes: readonly string[]
  readonly nextDeadlineMs: number | null
}

export type Overdue = PastPatience | PastDeadline

export interface PastDeadline {
  readonly route: null
  readonly error: JobError
}

/**
 * Jobs are overdue if they have waited for model servers for `patienceMs` in total. The current wait began when the job was
 * last released to wait or left the wait for budget; if neither happened, when it was created. It counts from
 * `unavailableSinceMs` at the earliest. Earlier waits count too.
 */
export interface PastPatience {
  readonly route: string
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
  /** The usage and errors of earlier runs, written by `queue/execution-result.ts`. */
  readonly earlierJson: string
  /** `sinceMs` is the time of this release. `waitedMs` is how long the job had waited for model servers before. */
  readonly sinceMs: number
  readonly waitedMs: number
}

export interface Acceptance {
  readonly node: string
  readonly jobs: readonly NewJob[]
  readonly idempotency: Idempotency | null
  readonly nowMs: number
  /** The write may wait this long to share a transaction with others. */
  readonly mayWaitMs?: number
  /** Limits the account's cost in this month, in millionths of the currency, including what open jobs reserve. */
  readonly costCap?: number
}

export interface NewJob {
  readonly job: Job
  /** If true, the accepting node runs the job at once. The job is stored as claimed by that node, with attempt 1. */
  readonly handedOff: boolean
  /** The job moves its account's next turn on the route by this much. See `Tiers.stepOf`. */
  readonly step: number
  /** `queueName` (`job/priority.ts`) makes this name from the job's targets and priority. */
  readonly route: string
  /**
   * If true, a request on the accepting node waits for the job. The node then gets the text of a cached response, and a
   * notification if another node settles the job.
   */
  readonly awaited: boolean
  /** Identifies the cached response that would complete the job; null if the job does not use the response cache. */
  readonly fingerprint?: string | null
}

export interface Idempotency {
  /** Callers send it in the Idempotency-Key header. Held requests and reruns have keys too. */
  readonly key: string
  /** The same key with a different fingerprint is a conflict. */
  readonly fingerprint: string
  readonly untilMs: number
}

export type Accepted =
  /** A cached response has completed the jobs in `answered`. */
  { readonly kind: 'accepted'; readonly answered?: readonly AnsweredJob[] } | Earlier | OverCostCap

export interface OverCostCap {
  readonly kind: 'over cost cap'
  /** The account's cost in this month without these jobs, including what open jobs reserve. */
  readonly used: number
}

export type Earlier =
  | { readonly kind: 'repeated'; readonly jobIds: readonly string[] }
  | { readonly kind: 'conflict' }

export interface AnsweredJob {
  readonly jobId: string
  /** The text is null unless the job is awaited. */
  readonly contentJson: string | null
}

export interface Settlement extends Claim {
  readonly node: string
  readonly model: string
  readonly outcome: Outcome
  readonly usage: Usage
  readonly receiptJson: string
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
  readonly nowMs: number
  readonly mayWaitMs?: number
}

/**
 * `stale`: the node no longer holds the job under this attempt, for example because it was settled or rescued. `gone`: the job
 * no longer exists.
 */
export type Settled = 'settled' | 'stale' | 'gone'

export interface ReadJob extends JobRecord {
  /** If the result or error exceeds the limit of the read, it is null, and this is its size in bytes. Otherwise this is 0. */
  readonly omittedBytes: number
}

export interface EndedJob extends JobRecord {
  readonly cacheHit: boolean
}

export interface Depth {
  readonly waiting: number
  readonly oldestCreatedAtMs: number | null
  readonly assigned: number
}

export interface QueueDepth {
  /** An empty text stands for jobs whose route is unknown. */
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
