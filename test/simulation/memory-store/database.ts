/**
 * The contents of a database of the reference store, and how databases differ: one node uses it alone, like a SQLite file,
 * or many share it, like Postgres.
 */
import type { Job, Usage } from '../../../src/job/job.ts'
import type { AdminTokenRecord, OwnCaps } from '../../../src/store/account-store.ts'
import type { AuditEntry } from '../../../src/store/audit-store.ts'
import type { BatchLine, StoredBatch } from '../../../src/store/batch-store.ts'
import type { CallbackAttempt } from '../../../src/store/callback-store.ts'
import { type Expiry, expiresAtMs } from '../../../src/store/expiry.ts'
import { NO_MODEL } from '../../../src/store/job-rows.ts'
import type { StoredRate } from '../../../src/store/node-store.ts'
import type { RerunEnd } from '../../../src/store/rerun-store.ts'
import type { Idempotency } from '../../../src/store/store.ts'
import { outcomeBytes, requestBytes } from '../../../src/store/stored-bytes.ts'

export interface JobRow {
  readonly job: Job
  status: 'pending' | 'assigned' | 'completed' | 'failed'
  /** The place in the queue; null unless it is queued. */
  turn: number | null
  /** The node that holds it; null if none does. */
  node: string | null
  attempt: number
  crashCount: number
  /** Whether it crashed alone in the last crash that counted. */
  crashedAlone: boolean
  /** The attempt under which its start was recorded; 0 if none was. */
  startedAttempt: number
  claimedAtMs: number | null
  settledAtMs: number | null
  route: string
  earlierJson: string | null
  waitsSinceMs: number | null
  waitedMs: number
  /** The node with a pending response for it; null if none has one. */
  readonly origin: string | null
  outcome: OutcomeRow | null
  callback: CallbackRow | null
}

/** A place in the queue of a route. */
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
  /** Null once it was delivered or failed permanently. */
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
  /** The time at which it is removed; 0 if it was deleted. */
  removeAtMs: number | null
}

export interface RerunRow {
  readonly id: string
  readonly jobId: string
  readonly withCallback: boolean
  readonly requestedAtMs: number
  takenAtMs: number | null
  endedAtMs: number | null
  /** Null until the job was made, or refused. */
  end: RerunEnd | null
}

export interface BatchRow extends StoredBatch {
  readonly node: string | null
  readonly removeAtMs: number | null
  readonly lines: readonly BatchLine[]
}

/** A node that crashed, or seemed to crash, while it held the job. */
export interface CrashRow {
  readonly jobId: string
  readonly node: string
  readonly countedAtMs: number
  confirmed: boolean
}

export interface CancelledRow {
  readonly jobId: string
  readonly attempt: number
  /** The node to be notified; null for the node that uses the database alone. */
  readonly node: string | null
}

export class MemoryDatabase {
  /** Whether many nodes share it. */
  readonly shared: boolean
  /** The clock of the database, by which leases expire. */
  readonly clockMs: () => number
  readonly jobs = new Map<string, JobRow>()
  /** Jobs that have not ended. */
  readonly open = new Set<JobRow>()
  /** Jobs whose callback is owed. */
  readonly owed = new Set<JobRow>()
  readonly accounts = new Map<string, AccountRow>()
  readonly keys = new Map<string, KeyRow>()
  readonly usage = new Map<string, UsageRow>()
  readonly files = new Map<string, FileRow>()
  readonly reruns = new Map<string, RerunRow>()
  readonly batches = new Map<string, BatchRow>()
  readonly audit = new Map<string, AuditEntry>()
  readonly adminTokens = new Map<string, AdminTokenRecord>()
  readonly rates = new Map<string, StoredRate>()
  readonly idempotency = new Map<string, Idempotency & { account: string; jobIds: readonly string[] }>()
  readonly cachedResponses = new Map<string, { readonly jobId: string; readonly untilMs: number }>()
  /** The end of each node's lease. */
  readonly leases = new Map<string, number>()
  crashes: CrashRow[] = []
  cancelled: CancelledRow[] = []
  /** How far each route has been claimed. */
  readonly #turns = new Map<string, number>()
  /** Where the next walk of each route begins: each node has a place of its own. */
  readonly #places = new Map<string, Map<string, Place>>()
  #walker = ''
  /** The jobs that may be taken, if a real store beside this one has decided; null if any may. */
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

  /** Returns the queued jobs in fair order. */
  queued(): JobRow[] {
    return [...this.open].filter(({ turn }) => turn !== null).sort(inFairOrder)
  }

  /** Forgets where walks begin, as after a start of the only node. */
  forgetPlaces(): void {
    this.#turns.clear()
    this.#places.clear()
  }

  /** The only node of a database that is not shared does not know what the one before has claimed. */
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

  /** Makes walks begin early enough for a job that is queued with this turn. */
  joined(route: string, turn: number): void {
    const places = this.#placesOf(route)
    for (const [node, place] of places) if (turn <= place.turn) places.set(node, { turn, id: '' })
  }

  /** A claim beyond the node's place does not count: it was not made in order. */
  claimed(node: string, route: string, turn: number): void {
    const counted = Math.min(turn, this.place(node, route).turn)
    this.#turns.set(route, Math.max(this.#turns.get(route) ?? 0, counted))
  }

  /** The turn of the first job that is queued on the route, not before how far the route has been claimed. */
  headTurn(route: string): number {
    const turn = this.#turns.get(route) ?? 0
    return this.queued().find((row) => row.route === route && (row.turn ?? 0) >= turn)?.turn ?? turn
  }

  /** The turn of a new job. */
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

  delete(row: JobRow): void {
    this.jobs.delete(row.job.id)
    this.open.delete(row)
    this.owed.delete(row)
    for (const [fingerprint, { jobId }] of this.cachedResponses) {
      if (jobId === row.job.id) this.cachedResponses.delete(fingerprint)
    }
    for (const { id, jobId } of this.reruns.values()) if (jobId === row.job.id) this.reruns.delete(id)
  }

  /** The job while it can be read. */
  readable(jobId: string, expiry: Expiry): JobRow | null {
    const row = this.jobs.get(jobId)
    return row === undefined || !isJob(row) || hasExpired(row, expiry) ? null : row
  }
}

function inFairOrder(one: JobRow, other: JobRow): number {
  return (one.turn ?? 0) - (other.turn ?? 0) || (one.job.id < other.job.id ? -1 : 1)
}

/** False for the end of a batch, which only has a callback. */
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
