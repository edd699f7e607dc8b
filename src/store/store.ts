/**
 * The storage contract: where jobs live. This file has the life of a job; the other parts of the contract are next to it:
 *
 * - `account-store.ts`: accounts, their keys and secrets
 * - `callback-store.ts`: owed callbacks, and how operators see and replay them
 * - `node-store.ts`: leases of nodes, and what other nodes report
 * - `usage-store.ts`: what accounts have used
 * - `job-search-store.ts`: jobs as operators see them
 * - `admin-action-store.ts`: cancelling and deleting jobs, deleting accounts, scrubbing
 * - `own-job-store.ts`: cancelling and deleting jobs by their callers
 * - `audit-store.ts`: the audit log
 *
 * `test/store-contract/` has one suite of tests for all of it, which every implementation passes.
 *
 * Guarantees of every method:
 * - Each call is atomic: it happens completely or not at all.
 * - A write that resolved is durable: it survives a power cut.
 * - A write that rejected with `StoreUnavailable` may be tried again; a rejected `accept` has stored nothing. One that
 *   rejected with `WriteRejected` has changed nothing, and has not harmed the writes that were committed together with it.
 * - Callers make single calls; the store commits calls that arrive together in one transaction, in their order.
 * - The caller passes the time; a store uses no clock of its own, except the database's for leases.
 */
import type { ClaimedJob, Job, Outcome, Usage } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { AccountStore } from './account-store.ts'
import type { AdminActionStore } from './admin-action-store.ts'
import type { AuditStore } from './audit-store.ts'
import type { CallbackStore } from './callback-store.ts'
import type { Expiry } from './expiry.ts'
import type { JobSearchStore } from './job-search-store.ts'
import type { Claim, NodeStore } from './node-store.ts'
import type { OwnJobStore } from './own-job-store.ts'
import type { UsageStore } from './usage-store.ts'

export interface Store
  extends AccountStore,
    AuditStore,
    CallbackStore,
    AdminActionStore,
    JobSearchStore,
    NodeStore,
    OwnJobStore,
    UsageStore {
  /**
   * Stores all jobs of the acceptance, or none. With an idempotency key that is remembered for the account, it stores nothing
   * and returns the jobs of the earlier request (`repeated`), or `conflict` if that request was another one. If those jobs no
   * longer exist, the request is accepted again. A second call without a key stores the jobs a second time, or rejects.
   * Rejects with `UnknownAccount`, and stores nothing, if the account does not exist.
   *
   * A job for which a cached response exists (`NewJob.fingerprint`) is stored as completed by it, with all that settling stores,
   * whether it would be handed off or queued otherwise.
   */
  accept(acceptance: Acceptance): Promise<Accepted>

  /** What the key makes of a request: `repeated` or `conflict` if it is taken, as `accept` decides; otherwise null. Stores nothing. */
  findEarlier(account: string, idempotency: Idempotency, nowMs: number): Promise<Earlier | null>

  /**
   * Assigns up to `limit` queued jobs to the node and counts an attempt of each: lowest turn first, or as the bounds define.
   * No job is ever assigned to two nodes. The cost does not grow with the length of the queue, and the texts of jobs that are
   * not claimed are not read. A second call claims other jobs; if the response to the first was lost, `claimsOf` returns its
   * jobs.
   */
  claim(node: string, limit: number, nowMs: number, bounds?: ClaimBounds): Promise<Claimed>

  /**
   * Stores the outcome, its usage, the cached response and the callback that is owed, if this node still holds the job under
   * this attempt. A second call, or a call of a stale holder, changes nothing.
   */
  settle(settlement: Settlement): Promise<Settled>

  /**
   * Returns jobs that this node holds to the head of the queue. Jobs that it no longer holds are not changed, so a second
   * call changes nothing.
   */
  release(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Like `release`, for jobs that wait for a model server: stores their route and the usage of their runs so far, which the
   * next claim returns. A rescue, a release or a claim changes neither.
   */
  releaseWaiting(node: string, releases: readonly WaitingRelease[]): Promise<void>

  /**
   * Returns the jobs of dead nodes to the head of the queue, counts a crash of each, and makes their callbacks due. A node is
   * dead if it has no lease or its lease has expired; never this one. If it turns out that it was only paused, `revertCrashes`
   * reverts what was counted. Returns how many jobs there were. When several nodes call this, one rescues each job.
   */
  rescue(node: string, nowMs: number): Promise<number>

  /**
   * The cached response of an identical job, or null. Returns a promise only if the result is not known at once.
   * `fingerprint` already distinguishes accounts.
   */
  findResponse(fingerprint: string, nowMs: number): Promise<string | null> | null

  /**
   * The job as its account may see it; null if it does not exist, belongs to another account, or has expired. If the result
   * and the error together exceed `maxBytes`, they are not loaded; without `maxBytes`, they always are.
   */
  read(account: string, jobId: string, expiry: Expiry, maxBytes?: number): Promise<ReadJob | null>

  /**
   * Returns those of the jobs that have finished, of any account, for the node that accepted them. Results and errors
   * together have at most `maxBytes`, unless it is only one job; if finished jobs are omitted for this reason, call again
   * with the remaining ones.
   */
  readEnded(jobIds: readonly string[], maxBytes?: number): Promise<EndedJob[]>

  /** Returns those of the jobs, of any account, that do not exist: never stored, or deleted since. */
  findMissing(jobIds: readonly string[]): Promise<string[]>

  /**
   * Deletes a bounded number of expired jobs, cached responses and idempotency keys. Returns true if it reached its limit and
   * there may be more.
   */
  expire(expiry: Expiry): Promise<boolean>

  /** The length of the queue, in constant time: exact up to some thousands, and beyond that an estimate if counting is slow. */
  depth(): Promise<Depth>

  /** Resolves if the store can write now. */
  ping(): Promise<void>

  /** Finishes the calls that were made and closes. A second call waits for the same end. */
  close(): Promise<void>
}

/** Which jobs may be claimed, in addition to how many. */
export interface ClaimBounds {
  /** At most that many poison candidates; without this, crash counts do not matter. */
  readonly candidates?: PoisonCandidates
  /** How large the jobs may be; without this, any size. */
  readonly bytes?: ClaimBytes
  /**
   * If present, claims no jobs of these accounts, no poison candidates, and at most one job of every other account, its
   * first. Turns do not matter: the claim goes from account to account, so it finds each of them regardless of how many jobs
   * of the excepted accounts are ahead.
   */
  readonly exceptOf?: readonly string[]
  /** If present, claims only the first job of this account, and no poison candidate. */
  readonly ofAccount?: string
  /**
   * If present, claims no jobs of these routes, regardless of how many are queued. An account that is searched for, with
   * `exceptOf` or `ofAccount`, may be passed over if its first 64 jobs are of these routes.
   */
  readonly exceptRoutes?: readonly string[]
  /**
   * If present, claims only jobs of one route, and poison candidates only if the route has no other jobs, so that they are
   * claimed eventually. Cannot be combined with the bounds for accounts.
   */
  readonly ofRoute?: RouteBounds
}

/** A route as `upstreams/routes.ts` names it. */
export interface RouteBounds {
  readonly route: string
  /** Jobs that are claimed only if no other is queued. */
  readonly onlyIfAlone: readonly string[]
  /** If present, claims only jobs that have waited too long, in no particular order. */
  readonly overdue?: OverdueBounds
}

/**
 * A job is overdue if it has waited for `patienceMs` since the latest of its creation, its release and `unavailableSinceMs`;
 * its waiting time before the release counts as well.
 */
export interface OverdueBounds {
  readonly unavailableSinceMs: number
  readonly patienceMs: number
}

export interface WaitingRelease extends Claim {
  readonly route: string
  /** The usage and errors of earlier runs, as written by `queue/earlier-runs.ts`. */
  readonly earlierJson: string
  /** The time of the release, and how long the job had waited for model servers before it. */
  readonly sinceMs: number
  readonly waitedMs: number
}

/** In bytes of text as stored: messages, response format and callback together. */
export interface ClaimBytes {
  /** Jobs of at most this size are claimed regardless of `max`, and do not count. */
  readonly small: number
  /** The maximum total size of the others. */
  readonly max: number
}

export interface Claimed {
  readonly jobs: readonly ClaimedJob[]
  /**
   * The first examined job that is too large; null if none was, and possibly if the claim reached its limit. A claim in the
   * order of turns ends at this job, so that smaller ones do not overtake it; one with `exceptOf` continues with the next
   * account.
   */
  readonly tooLarge: { readonly account: string; readonly bytes: number } | null
}

/** Describes poison candidates: jobs with at least this crash count, which may be what kills their node. */
export interface PoisonCandidates {
  readonly crashCount: number
  /** How many of them one claim may return. */
  readonly limit: number
  /** A job with this crash count must fail. It is claimed only after every crash is confirmed (`confirmCrashes`). */
  readonly maxCrashCount: number
}

export interface Acceptance {
  readonly node: string
  readonly jobs: readonly NewJob[]
  readonly idempotency: Idempotency | null
  readonly nowMs: number
  /** As in `Settlement`. */
  readonly mayWaitMs?: number
}

export interface NewJob {
  readonly job: Job
  /** True if the accepting node runs the job itself at once: it is stored as claimed by that node, attempt 1. */
  readonly handedOff: boolean
  /** How far this job moves its account's next turn: 1000 divided by the tier's weight. */
  readonly step: number
  /** Its route, by which claims may pass it over; empty or absent if unknown, for example for a job that is handed off. */
  readonly route?: string
  /**
   * Whether the accepting node has a pending response for it: then that node is notified if another one settles it, and gets the
   * text of a cached response.
   */
  readonly awaited: boolean
  /** Identifies the cached response that would answer it; null or absent if the job does not use the response cache. */
  readonly fingerprint?: string | null
}

export interface Idempotency {
  /** The value of the Idempotency-Key header. */
  readonly key: string
  /** Identifies the request: the same key with a different fingerprint is a conflict. */
  readonly fingerprint: string
  readonly untilMs: number
}

export type Accepted =
  /** `answered`: the jobs that a cached response completed; absent if there are none. */
  { readonly kind: 'accepted'; readonly answered?: readonly AnsweredJob[] } | Earlier

/** What a request is that uses the key of an earlier one. */
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
  /** The public model name of the request: usage is summed by it. */
  readonly model: string
  readonly outcome: Outcome
  readonly usage: Usage
  /** What was sent to upstreams and what they returned, as JSON text. */
  readonly receiptJson: string
  /** Caches the answer for identical later jobs; null if it is not cached. */
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
  readonly nowMs: number
  /** How long the write may wait for others, so that they share a transaction; 0 or absent: not at all. */
  readonly mayWaitMs?: number
}

/** `stale`: another node holds the job, or it was settled before. `gone`: the job does not exist (any longer). */
export type Settled = 'settled' | 'stale' | 'gone'

export interface ReadJob extends JobRecord {
  /** The size of the result and the error if they were too large to be loaded, and are null for that reason; otherwise 0. */
  readonly omittedBytes: number
}

/** A finished job, for the pending response of a node that did not run it. */
export interface EndedJob extends JobRecord {
  readonly cacheHit: boolean
}

export interface Depth {
  /** Queued jobs. */
  readonly waiting: number
  /** When the oldest of them was created; null if there is none. */
  readonly oldestCreatedAtMs: number | null
  /** Jobs that nodes hold. */
  readonly assigned: number
}

/** The database cannot write now (disk full, unreachable, too many writes queued), but may later. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
}

/** The database rejects the write because of what it contains (a constraint, a type, a size), and always will. */
export class WriteRejected extends Error {
  override readonly name = 'WriteRejected'
}

/** The account of a new job does not exist: it was deleted after its key had been looked up. Nothing was stored. */
export class UnknownAccount extends Error {
  override readonly name = 'UnknownAccount'

  constructor() {
    super('The account of the job does not exist.')
  }
}
