/**
 * Where jobs live: the contract that every store keeps, with its promises. One suite (store-contract.ts) holds each
 * implementation to it.
 *
 * Promises common to all methods:
 * - A write that resolved is durable: it outlives a power cut. A write that rejected with `StoreUnavailable` may be
 *   tried again; of a rejected `accept` nothing is stored. One that rejected with `WriteRejected` changed nothing, and
 *   neither did it harm the writes that were committed together with it.
 * - Callers hand over single writes; the store groups what arrives together into one transaction, in order.
 * - Times are given in, never taken from a clock of the store's own.
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
import type { UsageStore } from './usage-store.ts'

export interface Store
  extends AccountStore,
    AuditStore,
    CallbackStore,
    AdminActionStore,
    JobSearchStore,
    NodeStore,
    UsageStore {
  /**
   * Stores all jobs of the acceptance, or none. With an idempotency key that is remembered for the account, stores
   * nothing and answers with the earlier request's jobs (`repeated`), or with `conflict` if that was another request. A
   * request whose jobs no longer exist is stored anew.
   */
  accept(acceptance: Acceptance): Promise<Accepted>

  /**
   * Stores a job that has ended already, with its outcome and all that settling stores, in one write: as if it had been
   * accepted by the settlement's node, handed off and settled at once.
   */
  acceptEnded(job: Job, settlement: Settlement): Promise<void>

  /**
   * Gives up to `limit` waiting jobs to the node, lowest turn first, and counts an attempt of each. No job is ever
   * held by two nodes. The cost does not grow with the number of waiting jobs. Of the suspects, if they are named, only
   * so many are among them.
   */
  claim(node: string, limit: number, nowMs: number, suspects?: PoisonCandidates): Promise<ClaimedJob[]>

  /**
   * Stores the outcome, its usage, the kept answer and the callback that is owed, all in one transaction, if this node
   * still holds the job under this attempt. A second call, or one from a stale holder, changes nothing.
   */
  settle(settlement: Settlement): Promise<Settled>

  /** Puts jobs that this node holds back at the head of the line. Jobs it no longer holds are left alone. */
  release(node: string, claims: readonly Claim[]): Promise<void>

  /**
   * Gives back every job held by a node that is dead, counting a death for each, and never one of this node's. Returns
   * how many there were. Dead is who has no lease, or one that has ended. Callbacks that it held are due now.
   */
  rescue(node: string, nowMs: number): Promise<number>

  /** The answer kept for an identical job, or null. `fingerprint` already distinguishes accounts. */
  findResponse(fingerprint: string, nowMs: number): Promise<string | null>

  /** The job as its account may see it; null if there is none, it is another account's, or it has expired. */
  read(account: string, jobId: string, expiry: Expiry): Promise<JobRecord | null>

  /** Those of the jobs that have ended, whoever's they are: for the node that accepted them. */
  readEnded(jobIds: readonly string[]): Promise<EndedJob[]>

  /**
   * Deletes a bounded number of expired jobs, kept answers and idempotency keys. Returns true when it stopped at its
   * bound and more may be left.
   */
  expire(expiry: Expiry): Promise<boolean>

  /** How long the line is, in constant time: exact up to some thousands, an estimate beyond where that is dear. */
  depth(): Promise<Depth>

  /** Resolves when the store can take a write just now. */
  ping(): Promise<void>

  /** Finishes the writes under way and closes. A second call waits for the same end. */
  close(): Promise<void>
}

/** Jobs that may be what kills their node: those that were held at so many deaths, or more. */
export interface PoisonCandidates {
  readonly crashCount: number
  readonly limit: number
}

export interface Acceptance {
  readonly node: string
  readonly jobs: readonly NewJob[]
  readonly idempotency: Idempotency | null
  readonly nowMs: number
}

export interface NewJob {
  readonly job: Job
  /** True when the accepting node runs the job itself at once: it is stored as claimed by it, attempt 1. */
  readonly handedOff: boolean
  /** How far this job moves its account's next turn: 1000 divided by the tier's weight. */
  readonly step: number
  /** Whether a caller waits for it at the accepting node, which is then told when another node settles it. */
  readonly awaited: boolean
}

export interface Idempotency {
  /** What the caller sent as Idempotency-Key. */
  readonly key: string
  /** Stands for the request: the same key with another fingerprint is a conflict. */
  readonly fingerprint: string
  readonly untilMs: number
}

export type Accepted =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'repeated'; readonly jobIds: readonly string[] }
  | { readonly kind: 'conflict' }

export interface Settlement extends Claim {
  readonly node: string
  /** The public name that was asked for: usage is summed by it. */
  readonly model: string
  readonly outcome: Outcome
  readonly usage: Usage
  /** What was really sent upstream and came back, as JSON text. */
  readonly receiptJson: string
  /** Keeps the answer for identical later jobs; null where it is not to be kept. */
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
  readonly nowMs: number
}

/** `stale`: another holder, or settled before. `gone`: there is no such job (any more). */
export type Settled = 'settled' | 'stale' | 'gone'

/** An ended job, as the node is told of it where its caller waits. */
export interface EndedJob extends JobRecord {
  readonly cacheHit: boolean
}

export interface Depth {
  /** Jobs that wait to be claimed. */
  readonly waiting: number
  /** When the oldest of them was created; null when none waits. */
  readonly oldestCreatedAtMs: number | null
  /** Jobs held by nodes. */
  readonly assigned: number
}

/** The database cannot take the write now (disk full, unreachable, too much queued); it may later. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
}

/** The database rejects the write for what is in it (a constraint, a value's type, a size), and will do so each time. */
export class WriteRejected extends Error {
  override readonly name = 'WriteRejected'
}
