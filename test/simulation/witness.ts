/**
 * Watches the results of the simulated database, for the rules about who may write: a stale holder changes nothing (P3), a job
 * ends once (P2), no job is assigned to two nodes, and identical jobs are answered from the cache. Keeps its own record of who
 * holds each job, which does not depend on the rows of the database.
 */

import type { Claim } from '../../src/store/node-store.ts'
import type { Acceptance, Accepted, Claimed, Settlement, Store } from '../../src/store/store.ts'
import { type Ledger, TOO_EARLY } from './ledger.ts'
import type { MemoryDatabase } from './memory-store/database.ts'
import type { MethodName, StoreCall } from './memory-store/memory-store.ts'
import { WORLD_START_MS, type World } from './world.ts'

/** Both real stores reject times with fractions. */
const WHOLE = 'times are whole milliseconds'
/** These calls end or delete jobs, but their results do not name the jobs. */
const CHANGES: readonly MethodName[] = [
  'cancelJob',
  'cancelJobs',
  'cancelOwnJob',
  'deleteJob',
  'deleteJobsOf',
  'deleteOwnJob',
  'deleteAccount',
  'expire',
  'failOverdue',
]

/**
 * A job may be claimed this often, plus `MOST_CLAIMS_PER_SECOND` times a second. A waiting job is claimed again after a pause
 * of at least a second, and nodes, targets and faults add some claims.
 */
const MOST_CLAIMS = 100
const MOST_CLAIMS_PER_SECOND = 5

interface Holder {
  readonly node: string
  readonly attempt: number
  readonly sinceMs: number
  /**
   * The node learned at this time that the job is assigned to it. While this is null, calls can only be those of an earlier
   * run.
   */
  knownMs: number | null
}

interface CachedResponse {
  readonly jobId: string
  readonly storedMs: number
  /** This is a time on the clock of the job's node. */
  readonly untilMs: number
}

type ResultOf<Name extends MethodName> = Awaited<ReturnType<Store[Name]>>
type Saw<Args, Result> = (args: Args, result: Result, node: string) => void

export class Witness {
  readonly #world: World
  readonly #ledger: Ledger
  readonly #db: MemoryDatabase
  readonly #holders = new Map<string, Holder>()
  /** Maps jobs to how often they were assigned, and to the first of these times. */
  readonly #claims = new Map<string, { count: number; readonly firstMs: number }>()
  /**
   * These starts are recorded although their process does not know that yet. Once it knows, it calls at once, unless it ends
   * first.
   */
  readonly #starts = new Set<string>()
  readonly #wasGone = new Set<string>()
  readonly #cached = new Map<string, CachedResponse>()

  constructor(world: World, ledger: Ledger, db: MemoryDatabase) {
    this.#world = world
    this.#ledger = ledger
    this.#db = db
  }

  /** The witness must see the result of each call that the database ran for a node. */
  saw(node: string, { name, args }: StoreCall, result: unknown): void {
    // The compiler does not know that the name, the arguments and the result belong together.
    const saw = this.#saw[name] as Saw<unknown, unknown> | undefined
    saw?.(args, result, node)
    if (CHANGES.includes(name)) this.#ledger.limits.changed((jobId) => this.#stateOf(jobId))
  }

  readonly #saw: { readonly [Name in MethodName]?: Saw<Parameters<Store[Name]>, ResultOf<Name>> } = {
    accept: ([acceptance], accepted) => this.#accepted(acceptance, accepted),
    claim: (_args, { jobs }, node) => {
      for (const { id, attempt } of jobs) this.#assigned(id, node, attempt)
    },
    release: ([, claims], _result, node) => {
      for (const claim of claims) {
        this.#released(node, claim)
        this.#forgotten(claim.jobId)
      }
    },
    releaseWaiting: ([, releases], _result, node) => {
      for (const release of releases) {
        const { jobId, waitedMs } = release
        if (!Number.isInteger(waitedMs)) this.#ledger.violate(WHOLE, `${jobId} waited ${waitedMs} ms`)
        this.#released(node, release)
      }
    },
    settle: ([settlement], result) => {
      if (result === 'settled') this.#settled(settlement)
    },
    failOverdue: ([, nowMs], failed) => {
      for (const { jobId } of failed) this.#ended(jobId, nowMs)
    },
    recordStarts: ([, claims], _result, node) => {
      for (const { jobId } of claims) this.#starts.add(`${node} ${jobId}`)
    },
    setCaps: ([account, caps]) => this.#ledger.limits.setCaps(account, caps),
    suspend: ([account, sinceMs]) => this.#ledger.limits.suspended(account, sinceMs !== null),
    expire: () => this.#expired(),
    cancelJob: ([jobId, nowMs], result) => {
      if (result === 'cancelled') this.#ended(jobId, nowMs)
    },
    cancelOwnJob: ([{ jobId, nowMs }], result) => {
      if (result === 'cancelled') this.#ended(jobId, nowMs)
    },
  }

  knowsStarts(node: string, claims: readonly Claim[]): void {
    for (const { jobId } of claims) this.#starts.delete(`${node} ${jobId}`)
  }

  /** Returns whether the process was about to call a model server. If the process ended, nobody knows whether it did. */
  isStarting(node: string, jobId: string): boolean {
    return this.#starts.has(`${node} ${jobId}`)
  }

  knowsClaims(node: string, { jobs }: Claimed): void {
    for (const { id, attempt } of jobs) {
      const holder = this.#holders.get(id)
      if (holder?.node === node && holder.attempt === attempt) holder.knownMs = this.#world.nowMs
    }
  }

  knownMs(jobId: string, node: string): number | null {
    const holder = this.#holders.get(jobId)
    return holder?.node === node ? holder.knownMs : null
  }

  assignedMs(jobId: string, node: string): number | null {
    const holder = this.#holders.get(jobId)
    return holder?.node === node ? holder.sinceMs : null
  }

  rescued(jobId: string): void {
    this.#holders.delete(jobId)
    this.#forgotten(jobId)
  }

  /** The service does not store what the last run of the job learned. */
  #forgotten(jobId: string): void {
    const job = this.#ledger.jobs.get(jobId)
    if (job !== undefined) this.#ledger.jobCalls.forgotten(job.account, job.plan.tag)
  }

  #stateOf(jobId: string): 'open' | 'ended' | 'gone' {
    const row = this.#db.jobs.get(jobId)
    return row === undefined ? 'gone' : row.outcome === null ? 'open' : 'ended'
  }

  /** Unless a job or its account is deleted on request, the job must stay until it expires. */
  #expired(): void {
    const ledger = this.#ledger
    for (const [id, settledAtMs] of ledger.settledAtMs) {
      const job = ledger.jobs.get(id)
      if (job === undefined || this.#wasGone.has(id) || this.#db.jobs.has(id)) continue
      this.#wasGone.add(id)
      const keptMs = this.#world.nowMs - settledAtMs + ledger.clockJumpsMs
      if (!job.wasDeleted && !ledger.deletedAccounts.has(job.account) && keptMs < ledger.keptMs(job))
        ledger.violate(TOO_EARLY, `${id} expired ${keptMs} ms after its end`)
    }
  }

  #accepted({ node, jobs, nowMs }: Acceptance, accepted: Accepted): void {
    if (accepted.kind !== 'accepted') return
    const answered = new Map(
      accepted.answered?.map(({ jobId }) => {
        const { contentJson = '', receiptJson = '' } = this.#db.jobs.get(jobId)?.outcome ?? {}
        return [jobId, Buffer.byteLength(`${contentJson}${receiptJson}`)]
      }),
    )
    this.#ledger.limits.accepted(
      jobs.map(({ job }) => job.id),
      answered,
    )
    for (const { job, handedOff } of jobs) {
      if (answered.has(job.id)) this.#ended(job.id, nowMs)
      else if (handedOff) this.#assigned(job.id, node, 1)
    }
  }

  #assigned(jobId: string, node: string, attempt: number): void {
    const before = this.#holders.get(jobId)
    if (before !== undefined)
      this.#ledger.violate('a job has one holder', `${jobId} of ${before.node} is assigned to ${node}`)
    const { nowMs } = this.#world
    this.#holders.set(jobId, { node, attempt, sinceMs: nowMs, knownMs: attempt === 1 ? nowMs : null })
    const claims = this.#claims.get(jobId) ?? { count: 0, firstMs: nowMs }
    claims.count += 1
    this.#claims.set(jobId, claims)
    const seconds = (nowMs - claims.firstMs) / 1000
    if (claims.count > MOST_CLAIMS + seconds * MOST_CLAIMS_PER_SECOND)
      this.#ledger.violate(
        'no job is claimed over and over',
        `${jobId}: ${claims.count} times in ${seconds} s`,
      )
  }

  #released(node: string, { jobId, attempt }: Claim): void {
    const holder = this.#holders.get(jobId)
    if (holder?.node === node && holder.attempt === attempt) this.#holders.delete(jobId)
  }

  #settled(settlement: Settlement): void {
    this.#ledger.limits.settled(settlement)
    const { jobId, node, attempt, nowMs, cache } = settlement
    const holder = this.#holders.get(jobId)
    if (holder?.node !== node || holder.attempt !== attempt)
      this.#ledger.violate('a stale holder cannot write', `${node} settled attempt ${attempt} of ${jobId}`)
    else if (attempt === 1) this.#checkCache(settlement, holder)
    this.#ended(jobId, nowMs)
    if (cache) {
      const { fingerprint, untilMs } = cache
      this.#cached.set(fingerprint, { jobId, storedMs: this.#world.nowMs, untilMs })
    }
  }

  /** A model answered this job, so when the job was assigned, there must have been no cached response of an identical job. */
  #checkCache({ jobId, cache, nowMs }: Settlement, { sinceMs }: Holder): void {
    const ledger = this.#ledger
    const cached = cache && this.#cached.get(cache.fingerprint)
    if (!cached || cached.storedMs >= sinceMs || cached.untilMs <= nowMs) return
    const earlier = ledger.jobs.get(cached.jobId)
    const mayBeAbsent = earlier === undefined || ledger.mayBeGone(earlier) || ledger.clockJumpsMs > 0
    // During a fault, a job is run if the cached response cannot be read in time.
    if (mayBeAbsent || !ledger.wasCalmSince(cached.storedMs)) return
    ledger.violate(
      'an identical job is answered from the cache',
      `${jobId} was run although ${cached.jobId} had ended`,
    )
  }

  /** @param atMs when the job ended, by the node's clock, in Unix milliseconds; a retried settlement keeps it */
  #ended(jobId: string, atMs = this.#world.nowMs + WORLD_START_MS): void {
    if (this.#ledger.endedMs.has(jobId))
      this.#ledger.violate('one final state, never changed', `${jobId} ended twice`)
    this.#ledger.endedMs.set(jobId, this.#world.nowMs)
    this.#ledger.settledAtMs.set(jobId, atMs - WORLD_START_MS)
    this.#holders.delete(jobId)
  }
}
