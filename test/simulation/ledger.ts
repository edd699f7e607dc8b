/**
 * Records what is known outside the service in a simulation: what callers sent and received, what model servers and receivers
 * counted, and what happened to processes. The rules (`rules.ts`) compare this record with what the service reports. The ledger
 * also collects violations.
 */
import type { KnownBatch } from './batches.ts'
import { Calls } from './calls.ts'
import { Limits, type LimitsOptions } from './limits.ts'
import type { JobPlan } from './plan.ts'
import type { SimulatedThread, World } from './world.ts'

/** Within this time after a fault, leases are renewed, and polls find what lost notifications reported. */
const RECOVERY_MS = 30_000
/** A database call that arrived during a fault may be answered as late as this after the end of the fault. */
const LATE_REPLY_MS = 25_000
/** A conversation has this many tokens beyond the characters in its plan. */
const EXTRA_TOKENS = 100

export interface KnownRequest {
  readonly id: number
  readonly account: string
  readonly plans: readonly JobPlan[]
  readonly isBatch: boolean
  readonly key: string | null
  readonly answers: string[]
  /** Each list has the jobs that a node created for the request. There are several lists if the jobs were created again. */
  readonly attempts: (readonly string[])[]
}

export interface KnownCrash {
  readonly node: string
  readonly atMs: number
  /** A model server received a call of the job from this process. */
  readonly executed: boolean
  isReverted: boolean
}

export interface KnownJob {
  readonly id: string
  readonly account: string
  readonly plan: JobPlan
  readonly request: KnownRequest
  readonly createdAtMs: number
  isAccepted: boolean
  readStatus: string | null
  readResult: string | null
  wasCancelled: boolean
  wasDeleted: boolean
  /** The time is in milliseconds of the world. */
  goneAtMs: number | null
  readonly crashes: KnownCrash[]
  readonly callbackTries: {
    readonly process: string
    readonly endedMs: number
    readonly retryAfterMs: number
  }[]
  wasReplayed: boolean
  readonly callbackAnswers: number[]
  callbacksReceived: number
}

/** Counts what model servers replied to the jobs of one account with the same tag. */
export interface CallCounts {
  jobs: number
  calls: number
  /** These replies may count against the job. */
  blamed: number
  /** Tokens count only if their reply reached the process which had sent the call. */
  tokens: number
  readonly answered: Set<string>
  paidErrors: number
  /** Until this time, the upstreams are overloaded for a repair. Null stands for the time before the first repair. */
  overloadedUntilMs: number | null
  jobId: string | null
  /** The time is in milliseconds of the world. */
  firstAtMs: number | null
}

export interface Violation {
  readonly rule: string
  readonly what: string
  readonly atMs: number
}

/**
 * This rule covers everything that must not happen before a certain time, such as retries, callbacks, ends of waits and expiry.
 */
export const TOO_EARLY = 'nothing happens before its time'
export const LEAKS = 'nothing leaks once everything has settled'
export const STORES_AGREE = 'the real store answers as the reference store'

export interface CallInProgress {
  readonly account: string
  readonly tag: string
  readonly thread: SimulatedThread
}

export interface LedgerOptions extends Pick<LimitsOptions, 'shared' | 'tierOf'> {
  readonly retentionMs: number
  readonly isPatient: boolean
}

export class Ledger {
  readonly #world: World
  readonly retentionMs: number
  readonly limits: Limits
  readonly jobCalls: Calls
  readonly requests: KnownRequest[] = []
  readonly jobs = new Map<string, KnownJob>()
  readonly plans = new Map<string, JobPlan>()
  readonly calls = new Map<string, CallCounts>()
  readonly callsInProgress = new Set<CallInProgress>()
  /** These processes ended, stopped or were paused, so usage may be lost. */
  readonly disturbed = new Set<string>()
  /** Maps accounts to the input tokens that may count for calls of cancelled jobs. */
  readonly inputOfCancelled = new Map<string, number>()
  /** Maps jobs to their ends in milliseconds of the world. Jobs that an operator cancelled together are absent. */
  readonly endedMs = new Map<string, number>()
  /** Maps jobs to the ends that the database stored, in milliseconds of the world. */
  readonly settledAtMs = new Map<string, number>()
  /** The clocks of nodes may be wrong by this many milliseconds. */
  clockJumpsMs = 0
  storeClockJumped = false
  readonly deletedAccounts = new Set<string>()
  readonly cancelledAccounts = new Set<string>()
  readonly secrets = new Map<string, readonly string[]>()
  readonly batches = new Map<string, KnownBatch>()
  readonly violations: Violation[] = []
  /** If true, usage may be less than what model servers counted. */
  mayLoseUsage = false
  #troubledUntilMs = Number.NEGATIVE_INFINITY
  /** Until this time, the database may reject calls, or may answer calls that arrived during a fault. */
  #storeFaultUntilMs = Number.NEGATIVE_INFINITY

  constructor(world: World, { retentionMs, isPatient, shared, tierOf }: LedgerOptions) {
    this.#world = world
    this.retentionMs = retentionMs
    this.limits = new Limits({ world, ledger: this, shared, tierOf })
    this.jobCalls = new Calls(world, this, isPatient)
  }

  /** Only the first violation of each rule is kept. */
  violate(rule: string, what: string): void {
    this.#world.note(`VIOLATION ${rule}: ${what}`)
    if (this.violations.some((known) => known.rule === rule)) return
    this.violations.push({ rule, what, atMs: this.#world.nowMs })
  }

  newRequest(account: string, plans: readonly JobPlan[], isBatch: boolean, key: string | null): KnownRequest {
    const id = this.requests.length
    const request = { id, account, plans, isBatch, key, answers: [], attempts: [] }
    this.requests.push(request)
    for (const plan of plans) this.plans.set(plan.tag, plan)
    return request
  }

  newJobs(request: KnownRequest, ids: readonly string[]): void {
    request.attempts.push(ids)
    ids.forEach((id, index) => {
      const plan = request.plans[index]
      if (plan === undefined) throw new Error('a request has more jobs than elements')
      const counts = this.callsOf(request.account, plan.tag)
      counts.jobs += 1
      counts.jobId = id
      if (this.jobs.has(id)) this.violate('ids are unique', id)
      this.jobs.set(id, {
        id,
        account: request.account,
        plan,
        request,
        createdAtMs: this.#world.nowMs,
        isAccepted: false,
        readStatus: null,
        readResult: null,
        wasCancelled: false,
        wasDeleted: false,
        goneAtMs: null,
        crashes: [],
        callbackTries: [],
        wasReplayed: false,
        callbackAnswers: [],
        callbacksReceived: 0,
      })
    })
  }

  callsOf(account: string, tag: string): CallCounts {
    const name = `${account} ${tag}`
    const known = this.calls.get(name)
    if (known !== undefined) return known
    const counts = {
      jobs: 0,
      calls: 0,
      blamed: 0,
      tokens: 0,
      firstAtMs: null,
      jobId: null,
      paidErrors: 0,
      overloadedUntilMs: null,
    }
    const added: CallCounts = { ...counts, answered: new Set() }
    this.calls.set(name, added)
    return added
  }

  addSecret(account: string, secret: string): void {
    this.secrets.set(account, [...(this.secrets.get(account) ?? []), secret])
  }

  /** If the real store and the reference store have diverged, nothing further can be checked. */
  get hasDiverged(): boolean {
    return this.violations.some(({ rule }) => rule === STORES_AGREE)
  }

  accepted(): KnownJob[] {
    return [...this.jobs.values()].filter(({ isAccepted }) => isAccepted)
  }

  /** A process or the database has a fault. Its effects may last for some time after the fault. */
  troubledFor(ms: number): void {
    this.#troubledUntilMs = Math.max(this.#troubledUntilMs, this.#world.nowMs + Math.max(0, ms) + RECOVERY_MS)
  }

  storeFaultFor(ms: number): void {
    this.#storeFaultUntilMs = Math.max(this.#storeFaultUntilMs, this.#world.nowMs + ms + LATE_REPLY_MS)
  }

  /** Returns whether the database may have rejected calls since this time. */
  hadStoreFault(sinceMs: number): boolean {
    return this.#storeFaultUntilMs >= sinceMs
  }

  /** Returns whether all processes and the database have been healthy since this time. */
  wasCalmSince(ms: number): boolean {
    return ms > this.#troubledUntilMs
  }

  cancels(job: KnownJob): void {
    job.wasCancelled = true
    this.mayLoseUsage = true
    const before = this.inputOfCancelled.get(job.account) ?? 0
    this.inputOfCancelled.set(job.account, before + job.plan.size + EXTRA_TOKENS)
  }

  mayBeCancelled({ account, wasCancelled }: KnownJob): boolean {
    return wasCancelled || this.cancelledAccounts.has(account) || this.deletedAccounts.has(account)
  }

  keptMs({ plan }: KnownJob): number {
    return Math.max(this.retentionMs, plan.cacheTtlMs)
  }

  mayBeGone(job: KnownJob): boolean {
    if (job.wasDeleted || this.deletedAccounts.has(job.account)) return true
    const endedMs = this.settledAtMs.get(job.id) ?? (this.mayBeCancelled(job) ? job.createdAtMs : null)
    return endedMs !== null && this.#world.nowMs - endedMs + this.clockJumpsMs >= this.keptMs(job)
  }
}
