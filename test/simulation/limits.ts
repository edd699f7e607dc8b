/**
 * Computes what each account has open, stored and used, for rules about quotas and caps. The numbers come from callers'
 * requests and what the database did with them, not from the sums that stores keep and nodes estimate. They must explain every
 * rejection of a create, and no acceptance may contradict them.
 */
import type { Job } from '../../src/job/job.ts'
import type { Tier } from '../../src/job/tier.ts'
import type { CapReached } from '../../src/queue/job-and-token-caps.ts'
import type { AdmissionError } from '../../src/queue/job-creator.ts'
import type { OwnCaps } from '../../src/store/account-store.ts'
import type { Settlement } from '../../src/store/store.ts'
import type { KnownRequest, Ledger } from './ledger.ts'
import { MAX_OUTPUT_TOKENS } from './model-servers.ts'
import type { World } from './world.ts'

const JUSTIFIED = 'every rejection is justified'
const HOLDS = 'a limit holds'
/** A rejection may be based on sums that a node read this many milliseconds before, including delays of the database. */
const SUMS_AGE_MS = 150
/** A node reads keys with their caps, and what is used of monthly caps, again after two seconds. */
const LOOKED_UP_MS = 2100
/**
 * While the database or a process has a fault, a node's knowledge may be this old, because a read may have begun long before.
 */
const DISTURBED_MS = 60_000
/** A node knows the results of jobs this many milliseconds after their end. */
const RESULTS_AGE_MS = 5100
/** The error and the receipt of a cancelled job have at most this many bytes. */
const CANCELLED_BYTES = 2000
const NO_CAPS: Required<OwnCaps> = {
  monthlyJobs: null,
  monthlyTokens: null,
  monthlyCost: null,
  openJobs: null,
  storedBytes: null,
}

export type Rejection = { readonly kind: 'unknown account' | 'unavailable' | 'conflict' } | AdmissionError

export interface CreateAttempt {
  readonly request: KnownRequest
  readonly process: string
  readonly startedMs: number
  readonly jobs: CountedJob[]
  hasEnded: boolean
}

interface CountedJob {
  readonly attempt: CreateAttempt
  readonly fromMs: number
  readonly bytes: number
  resultBytes: number
  /** A token costs one millionth, so this is also the job's cost. */
  tokens: number
  /** The job may have reserved more than this, in millionths. */
  readonly reserved: number
  isStored: boolean
  storedMs: number
  /** From `endedMs` on, the job was no longer open. From `removedMs` on, it was no longer stored. */
  endedMs: number
  removedMs: number
}

interface Since<T> {
  readonly atMs: number
  readonly value: T
}

export interface LimitsOptions {
  readonly world: World
  readonly ledger: Ledger
  readonly shared: boolean
  readonly tierOf: (account: string) => Tier
}

export class Limits {
  readonly #options: LimitsOptions
  readonly #jobs = new Map<string, CountedJob>()
  readonly #caps = new Map<string, Since<OwnCaps>[]>()
  readonly #suspended = new Map<string, Since<boolean>[]>()

  constructor(options: LimitsOptions) {
    this.#options = options
  }

  begin(request: KnownRequest, process: string): CreateAttempt {
    return { request, process, startedMs: this.#options.world.nowMs, jobs: [], hasEnded: false }
  }

  /** These jobs may be stored from now on. */
  reserve(attempt: CreateAttempt, jobs: readonly Job[]): void {
    const fromMs = this.#options.world.nowMs
    for (const { id, messagesJson, responseFormatJson, callbackJson, inputTokens } of jobs) {
      const bytes = bytesOf(messagesJson) + bytesOf(responseFormatJson) + bytesOf(callbackJson)
      const never = Number.POSITIVE_INFINITY
      const job = { attempt, fromMs, bytes, resultBytes: 0, tokens: 0, endedMs: never, removedMs: never }
      const reserved = inputTokens + MAX_OUTPUT_TOKENS
      const counted: CountedJob = { ...job, reserved, storedMs: never, isStored: false }
      attempt.jobs.push(counted)
      this.#jobs.set(id, counted)
    }
  }

  end(attempt: CreateAttempt): void {
    if (attempt.hasEnded) return
    attempt.hasEnded = true
    for (const job of attempt.jobs) if (!job.isStored) this.#remove(job)
  }

  processEnded(process: string): void {
    for (const { attempt } of this.#jobs.values()) if (attempt.process === process) this.end(attempt)
  }

  /**
   * The database stored the jobs, even if nobody learns of it.
   * @param answered for each job that a cached response completed at no cost, the bytes of the result
   */
  accepted(jobIds: readonly string[], answered: ReadonlyMap<string, number>): void {
    for (const id of jobIds) {
      const job = this.#jobs.get(id)
      if (job === undefined) continue
      job.isStored = true
      job.storedMs = this.#options.world.nowMs
      job.endedMs = Number.POSITIVE_INFINITY
      job.removedMs = Number.POSITIVE_INFINITY
      const resultBytes = answered.get(id)
      if (resultBytes !== undefined) this.#end(id, resultBytes)
    }
    const first = this.#jobs.get(jobIds[0] ?? '')
    if (first !== undefined) this.#checkAcceptance(first.attempt)
  }

  settled({ jobId, outcome, receiptJson, usage }: Settlement): void {
    const text = outcome.status === 'completed' ? outcome.contentJson : JSON.stringify(outcome.error)
    this.#end(jobId, bytesOf(text) + bytesOf(receiptJson))
    const job = this.#jobs.get(jobId)
    if (job !== undefined) job.tokens = usage.input_tokens + usage.output_tokens
  }

  /** The simulation must call this after jobs were cancelled, deleted or expired. */
  changed(stateOf: (jobId: string) => 'open' | 'ended' | 'gone'): void {
    for (const [id, job] of this.#jobs) {
      if (!job.isStored || Number.isFinite(job.removedMs)) continue
      const state = stateOf(id)
      if (state !== 'open' && !Number.isFinite(job.endedMs)) this.#end(id, CANCELLED_BYTES)
      if (state === 'gone') this.#remove(job)
    }
  }

  setCaps(account: string, caps: Partial<OwnCaps>): void {
    addTo(this.#caps, account, { atMs: this.#options.world.nowMs, value: { ...NO_CAPS, ...caps } })
  }

  suspended(account: string, isSuspended: boolean): void {
    addTo(this.#suspended, account, { atMs: this.#options.world.nowMs, value: isSuspended })
  }

  /** At some time while the node decided about the request, the account must have had no room. */
  rejected(attempt: CreateAttempt, rejection: Rejection): void {
    if (this.#isJustified(attempt, rejection)) return
    const { account, plans } = attempt.request
    const what = `${account} with ${plans.length} jobs: ${JSON.stringify(rejection)}`
    this.#options.ledger.violate(JUSTIFIED, what)
  }

  #isJustified(attempt: CreateAttempt, rejection: Rejection): boolean {
    const { ledger } = this.#options
    const { request, startedMs } = attempt
    const { account } = request
    switch (rejection.kind) {
      case 'unknown account':
        return ledger.deletedAccounts.has(account)
      case 'suspended':
        return this.#during(this.#suspended, account, attempt, false).includes(true)
      case 'conflict':
        return ledger.requests.some(
          (one) => one.account === account && one.key === request.key && !isSame(one, request),
        )
      case 'unavailable':
        return ledger.hadStoreFault(startedMs - LOOKED_UP_MS)
      case 'quota':
        return !this.#isRepeated(attempt) && this.#isQuotaReached(attempt, rejection.unit)
      case 'monthly cap':
        return !this.#isRepeated(attempt) && this.#isCapReached(attempt, rejection)
      default:
        return false
    }
  }

  /**
   * Returns whether the request repeats an earlier one that still has a stored job, and whose key cannot have expired.
   */
  #isRepeated({ request, startedMs }: CreateAttempt): boolean {
    const { ledger, world } = this.#options
    const { account, key } = request
    if (key === null || ledger.clockJumpsMs > 0) return false
    return ledger.requests.some((one) => {
      if (one === request || one.account !== account || one.key !== key || !isSame(one, request)) return false
      return one.attempts.some((ids) =>
        ids.some((id) => {
          const [job, known] = [this.#jobs.get(id), ledger.jobs.get(id)]
          if (job === undefined || known === undefined || job.storedMs >= startedMs) return false
          return !known.wasDeleted && world.nowMs - known.createdAtMs < ledger.retentionMs
        }),
      )
    })
  }

  #isQuotaReached(attempt: CreateAttempt, unit: 'open jobs' | 'stored bytes'): boolean {
    const { request, startedMs } = attempt
    const fromMs = startedMs - (this.#wasCalm(attempt) ? SUMS_AGE_MS : DISTURBED_MS)
    const others = this.#of(request.account).filter((job) => job.attempt !== attempt)
    if (unit === 'open jobs') {
      const open = others.filter(({ endedMs }) => endedMs >= fromMs).length
      return open + request.plans.length > this.#limits(attempt, 'openJobs').least
    }
    const stored = others.filter(({ removedMs }) => removedMs >= fromMs).concat(attempt.jobs)
    const { ledger } = this.#options
    const ofFiles = [...ledger.batches.values()].filter(({ account }) => account === request.account)
    const bytes = stored.reduce((sum, job) => sum + job.bytes + job.resultBytes, 0)
    return (
      bytes + ofFiles.reduce((sum, { mostBytes }) => sum + mostBytes, 0) >
      this.#limits(attempt, 'storedBytes').least
    )
  }

  #isCapReached(attempt: CreateAttempt, { unit, used = 0, added = 0 }: CapReached): boolean {
    const { ledger } = this.#options
    const { request, startedMs } = attempt
    const { account } = request
    if (unit === 'jobs') {
      const fromMs = startedMs - (this.#wasCalm(attempt) ? SUMS_AGE_MS : DISTURBED_MS)
      const counts = (job: CountedJob) => job.attempt !== attempt && (job.isStored || job.endedMs >= fromMs)
      const used = this.#of(account).filter(counts).length
      return used + request.plans.length > this.#limits(attempt, 'monthlyJobs').least
    }
    let tokens = ledger.inputOfCancelled.get(account) ?? 0
    for (const [name, counts] of ledger.calls) if (name.startsWith(`${account} `)) tokens += counts.tokens
    if (unit === 'tokens') return tokens >= this.#limits(attempt, 'monthlyTokens').least
    // Only the database knows how much the open jobs reserve for JSON, so `used` can't be checked while there are open jobs.
    const open = this.#of(account).some((job) => job.attempt !== attempt && job.endedMs >= startedMs)
    return (open || used <= tokens) && used + added > this.#limits(attempt, 'monthlyCost').least
  }

  /**
   * No limit may be exceeded, except by results and tokens that the node cannot know yet. If nodes share the database, only the
   * tokens and costs of the month are checked.
   */
  #checkAcceptance(attempt: CreateAttempt): void {
    const { ledger, shared } = this.#options
    const { account } = attempt.request
    if (ledger.deletedAccounts.has(account)) return
    const jobs = this.#of(account).filter(({ isStored }) => isStored)
    const check = (unit: keyof OwnCaps, used: number) => {
      const { most } = this.#limits(attempt, unit)
      if (used > most) ledger.violate(HOLDS, `${account} has ${used} of ${most} ${unit}`)
    }
    const knownMs = attempt.startedMs - RESULTS_AGE_MS
    const used = jobs.filter(({ endedMs }) => endedMs < knownMs).reduce((sum, { tokens }) => sum + tokens, 0)
    if (this.#wasCalm(attempt)) check('monthlyTokens', used + 1)
    const cost = jobs.reduce(
      (sum, job) => sum + (Number.isFinite(job.endedMs) ? job.tokens : job.reserved),
      0,
    )
    // If all jobs of a request have cached responses, the request costs nothing, and is accepted however much the account has
    // spent.
    const hasCost = attempt.jobs.some(({ endedMs }) => !Number.isFinite(endedMs))
    if (hasCost && this.#wasCalm(attempt)) check('monthlyCost', cost)
    if (shared) return
    const stored = jobs.filter(({ removedMs }) => !Number.isFinite(removedMs))
    check('openJobs', stored.filter(({ endedMs }) => !Number.isFinite(endedMs)).length)
    check('monthlyJobs', jobs.length)
    const isKnown = ({ endedMs, resultBytes }: CountedJob) =>
      endedMs < knownMs && resultBytes !== CANCELLED_BYTES
    const bytes = stored.reduce((sum, job) => sum + job.bytes + (isKnown(job) ? job.resultBytes : 0), 0)
    if (this.#wasCalm(attempt)) check('storedBytes', bytes)
  }

  /** Returns the least and the greatest limit that the node may have applied to the request. */
  #limits(attempt: CreateAttempt, unit: keyof OwnCaps): { readonly least: number; readonly most: number } {
    const { account } = attempt.request
    const tier = this.#options.tierOf(account)
    const ofTier = {
      monthlyJobs: tier.maxMonthlyJobs,
      monthlyTokens: tier.maxMonthlyTokens,
      monthlyCost: tier.maxMonthlyCost,
      openJobs: tier.maxOpenJobs,
      storedBytes: tier.maxStoredBytes,
    }[unit]
    const limits = this.#during(this.#caps, account, attempt, NO_CAPS).map(({ [unit]: own }) => {
      const limit = own ?? ofTier
      return limit === null || limit === 'none' ? Number.POSITIVE_INFINITY : limit
    })
    return { least: Math.min(...limits), most: Math.max(...limits) }
  }

  #during<T>(
    known: ReadonlyMap<string, readonly Since<T>[]>,
    account: string,
    attempt: CreateAttempt,
    first: T,
  ): readonly T[] {
    const fromMs = attempt.startedMs - (this.#wasCalm(attempt) ? LOOKED_UP_MS : DISTURBED_MS)
    const all = [{ atMs: Number.NEGATIVE_INFINITY, value: first }, ...(known.get(account) ?? [])]
    const last = all.findLastIndex(({ atMs }) => atMs <= fromMs)
    return all.slice(last).map(({ value }) => value)
  }

  #wasCalm({ startedMs }: CreateAttempt): boolean {
    return this.#options.ledger.wasCalmSince(startedMs - LOOKED_UP_MS)
  }

  #of(account: string): CountedJob[] {
    return [...this.#jobs.values()].filter(({ attempt }) => attempt.request.account === account)
  }

  #end(jobId: string, resultBytes: number): void {
    const job = this.#jobs.get(jobId)
    if (job === undefined) return
    job.endedMs = this.#options.world.nowMs
    job.resultBytes = resultBytes
  }

  #remove(job: CountedJob): void {
    job.removedMs = this.#options.world.nowMs
    job.endedMs = Math.min(job.endedMs, job.removedMs)
  }
}

function addTo<T>(lists: Map<string, T[]>, name: string, item: T): void {
  lists.set(name, [...(lists.get(name) ?? []), item])
}

function bytesOf(text: string | null): number {
  return text === null ? 0 : Buffer.byteLength(text)
}

function isSame(one: KnownRequest, other: KnownRequest): boolean {
  return one.isBatch === other.isBatch && JSON.stringify(one.plans) === JSON.stringify(other.plans)
}
