/**
 * Contains the tables of a reference store's database. A database is either used by one node alone, like a SQLite file, or
 * shared by many, like Postgres.
 */
import type { Job, Usage } from '../../../src/job/job.ts'
import type { OwnCaps } from '../../../src/store/account-store.ts'
import type { BatchLine, StoredBatch } from '../../../src/store/batch-store.ts'
import type { CallbackAttempt } from '../../../src/store/callback-store.ts'
import { type Expiry, expiresAtMs } from '../../../src/store/expiry.ts'
import { NO_MODEL } from '../../../src/store/job-rows.ts'
import type { StoredRate } from '../../../src/store/node-store.ts'
import type { Idempotency } from '../../../src/store/store.ts'
import { outcomeBytes, requestBytes } from '../../../src/store/stored-bytes.ts'

export interface JobRow {
  readonly job: Job
  status: 'pending' | 'assigned' | 'completed' | 'failed'
  /** The turn is null unless the job is queued. */
  turn: number | null
  node: string | null
  attempt: number
  crashCount: number
  crashedAlone: boolean
  /** The start of the job was recorded under this attempt. 0 means that no start was. */
  startedAttempt: number
  claimedAtMs: number | null
  settledAtMs: number | null
  route: string
  earlierJson: string | null
  waitsSinceMs: number | null
  waitedMs: number
  /** A caller waits for the job's response on this node. Null means that none waits. */
  readonly origin: string | null
  outcome: OutcomeRow | null
  callback: CallbackRow | null
}

export interface Place {
  readonly turn: number
  readonly id: string
}

export function placeOf({ turn, job }: JobRow): Place {
  return { turn: turn ?? 0, id: job.id }
}

export function isBefore(row: JobRow, place: Place): boolean {
  const { turn, id } = placeOf(row)
  return turn < place.turn || (turn === place.turn && id < place.id)
}

export interface OutcomeRow {
  readonly contentJson: string | null
  readonly errorJson: string | null
  readonly usage: Usage
  readonly receiptJson: string
}

export interface CallbackRow {
  isRetry: boolean
  attempt: number
  tries: number
  owedSinceMs: number
  /** The time is null once the callback was delivered or has failed permanently. */
  dueAtMs: number | null
  node: string | null
  isInProgress: boolean
  deliveredAtMs: number | null
  failedAtMs: number | null
  readonly attempts: CallbackAttempt[]
}

export interface AccountRow {
  readonly name: string
  tier: string
  secret: string
  previousSecret: string | null
  rotatedAtMs: number | null
  suspendedAtMs: number | null
  webhookUrl: string | null
  caps: OwnCaps
}

export interface KeyRow {
  readonly id: string
  readonly hash: string
  readonly account: string
  readonly label: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  revokedAtMs: number | null
  readonly usedAtMs?: number
}

export interface UsageRow {
  readonly account: string
  readonly month: string
  readonly model: string
  jobs: number
  failedJobs: number
  cacheHits: number
  calls: number
  inputTokens: number
  outputTokens: number
  cost?: number
}

export interface FileRow {
  readonly id: string
  readonly account: string
  readonly createdAtMs: number
  filename: string
  purpose: string
  readonly pieces: Uint8Array[]
  isComplete: boolean
  /** The file is removed at this time. 0 means that it was deleted. */
  removeAtMs: number | null
}

export interface BatchRow extends StoredBatch {
  readonly node: string | null
  readonly removeAtMs: number | null
  readonly lines: readonly BatchLine[]
}

/** The node crashed, or seemed to crash, while it held the job. */
export interface CrashRow {
  readonly jobId: string
  readonly node: string
  readonly countedAtMs: number
  confirmed: boolean
}

export interface CancelledRow {
  readonly jobId: string
  readonly attempt: number
  /** This node must be notified. Null means that one node uses the database alone. */
  readonly node: string | null
}

interface CachedResponse {
  readonly jobId: string
  readonly untilMs: number
}

export class MemoryDatabase {
  readonly shared: boolean
  /** Returns the time of the database's clock in Unix milliseconds, by which leases expire. */
  readonly clockMs: () => number
  readonly jobs = new Map<string, JobRow>()
  readonly open = new Set<JobRow>()
  readonly owed = new Set<JobRow>()
  readonly accounts = new Map<string, AccountRow>()
  readonly keys = new Map<string, KeyRow>()
  readonly usage = new Map<string, UsageRow>()
  readonly files = new Map<string, FileRow>()
  readonly batches = new Map<string, BatchRow>()
  readonly rates = new Map<string, StoredRate>()
  readonly idempotency = new Map<string, Idempotency & { account: string; jobIds: readonly string[] }>()
  /**
   * Maps fingerprints to responses, the newest last. SQLite finds only the newest. Postgres finds an older one once the job of
   * the newest is deleted.
   */
  readonly cachedResponses = new Map<string, readonly CachedResponse[]>()
  readonly leases = new Map<string, number>()
  crashes: CrashRow[] = []
  cancelled: CancelledRow[] = []
  /** Maps each route to the highest turn that has been claimed in order. */
  readonly #turns = new Map<string, number>()
  /** Maps routes and nodes to the place where the next walk begins. */
  readonly #places = new Map<string, Map<string, Place>>()
  #walker = ''
  /** If a real store beside this one has decided, only these jobs may be taken. Null means that any may. */
  chosen: ReadonlySet<string> | null = null

  constructor(options: { readonly shared: boolean; readonly clockMs: () => number }) {
    this.shared = options.shared
    this.clockMs = options.clockMs
  }

  mayTake(jobId: string): boolean {
    return this.chosen === null || this.chosen.has(jobId)
  }

  hasLease(node: string): boolean {
    return (this.leases.get(node) ?? Number.NEGATIVE_INFINITY) > this.clockMs()
  }

  queued(): JobRow[] {
    return [...this.open].filter(({ turn }) => turn !== null).sort(inFairOrder)
  }

  /** The only node of a database forgets where walks begin when it starts. */
  forgetPlaces(): void {
    this.#turns.clear()
    this.#places.clear()
  }

  /**
   * A node that takes over an unshared database does not know what the earlier node claimed, so it forgets where walks begin.
   */
  walkedBy(node: string): void {
    if (this.shared || node === this.#walker) return
    this.#walker = node
    this.forgetPlaces()
  }

  place(node: string, route: string): Place {
    return this.#placesOf(route).get(node) ?? { turn: 0, id: '' }
  }

  moved(node: string, route: string, place: Place): void {
    this.#placesOf(route).set(node, place)
  }

  /** Walks must begin early enough to find a job that is queued with this turn. */
  joined(route: string, turn: number): void {
    const places = this.#placesOf(route)
    for (const [node, place] of places) if (turn <= place.turn) places.set(node, { turn, id: '' })
  }

  /** A claim with a turn beyond the node's place was not made in order, so only the place counts. */
  claimed(node: string, route: string, turn: number): void {
    const counted = Math.min(turn, this.place(node, route).turn)
    this.#turns.set(route, Math.max(this.#turns.get(route) ?? 0, counted))
  }

  headTurn(route: string): number {
    const turn = this.#turns.get(route) ?? 0
    return this.queued().find((row) => row.route === route && (row.turn ?? 0) >= turn)?.turn ?? turn
  }

  nextTurn(account: string, route: string, step: number): number {
    const lane = this.queued().filter((row) => row.route === route && row.job.account === account)
    const last = lane.findLast(({ crashCount }) => crashCount === 0)
    return Math.max(this.headTurn(route), last === undefined ? 0 : (last.turn ?? 0) + step)
  }

  #placesOf(route: string): Map<string, Place> {
    const places = this.#places.get(route) ?? new Map<string, Place>()
    this.#places.set(route, places)
    return places
  }

  addCachedResponse(fingerprint: string, response: CachedResponse): void {
    const older = this.shared ? (this.cachedResponses.get(fingerprint) ?? []) : []
    this.cachedResponses.set(fingerprint, [...older, response])
  }

  dropCachedResponses(isDropped: (response: CachedResponse) => boolean): void {
    for (const [fingerprint, responses] of this.cachedResponses) {
      const left = responses.filter((response) => !isDropped(response))
      if (left.length > 0) this.cachedResponses.set(fingerprint, left)
      else this.cachedResponses.delete(fingerprint)
    }
  }

  delete(row: JobRow): void {
    this.jobs.delete(row.job.id)
    this.open.delete(row)
    this.owed.delete(row)
    this.dropCachedResponses(({ jobId }) => jobId === row.job.id)
  }

  readable(jobId: string, expiry: Expiry): JobRow | null {
    const row = this.jobs.get(jobId)
    return row === undefined || !isJob(row) || hasExpired(row, expiry) ? null : row
  }
}

function inFairOrder(one: JobRow, other: JobRow): number {
  return (one.turn ?? 0) - (other.turn ?? 0) || (one.job.id < other.job.id ? -1 : 1)
}

/** The row of a batch that has ended exists only for its callback, and is not a job. */
export const isJob = ({ job }: JobRow) => job.model !== NO_MODEL

export function hasExpired({ job, settledAtMs, callback }: JobRow, { nowMs, retentionMs }: Expiry): boolean {
  if (settledAtMs === null || (callback !== null && callback.dueAtMs !== null)) return false
  return expiresAtMs(settledAtMs, job.cacheTtlMs / 1000, retentionMs) <= nowMs
}

export function requestBytesOf({ messagesJson, responseFormatJson, callbackJson }: Job): number {
  return requestBytes(messagesJson, responseFormatJson, callbackJson)
}

export function storedBytesOf({ job, outcome }: JobRow): number {
  const { contentJson = null, errorJson = null, receiptJson = '' } = outcome ?? {}
  return requestBytesOf(job) + outcomeBytes(contentJson, errorJson, receiptJson)
}
