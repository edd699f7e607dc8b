/**
 * Makes admitted jobs durable. A cached response completes a job at once. Jobs for which this node has free slots are executed
 * here, without claiming or reading them again (the hand-off). All other jobs are queued.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import { queueName } from '../job/priority.ts'
import type { Accepted, AnsweredJob, Idempotency, NewJob, Store } from '../store/store.ts'
import { BUDGET_ROUTE } from '../store/usage-store.ts'
import type { AfterSettlement } from './after-settlement.ts'
import type { CostCapQueue } from './cost-cap-queue.ts'
import { type CacheKeyOf, cachedResult, isLarge, Turns } from './response-cache.ts'
import type { Place } from './scheduler.ts'
import type { Worker } from './worker.ts'

export interface EnqueueOptions {
  readonly idempotency: Idempotency | null
  readonly awaited: boolean
  /** The account's cost cap, as in `Acceptance`; absent if the account has none. */
  readonly costCap?: number
  /** Whether jobs that have a price must wait for the budget of their account. */
  readonly overBudget?: boolean
}

export interface EnqueuerOptions {
  readonly store: Pick<Store, 'accept'>
  /** A node that executes no jobs has no worker. Its jobs are queued for other nodes. */
  readonly worker: Worker | null
  readonly node: string
  readonly clock: Clock
  /** How far a job of this tier moves its account's next turn. */
  readonly stepOf: (tier: string) => number
  readonly routeOf: (job: Job) => string
  readonly cacheKeyOf: CacheKeyOf
  readonly metrics: { started(job: ClaimedJob, nowMs: number): void }
  readonly afterSettlement: AfterSettlement
  readonly budget: Pick<CostCapQueue, 'added'>
}

export class Enqueuer {
  readonly #options: EnqueuerOptions
  readonly #turns = new Turns()

  constructor(options: EnqueuerOptions) {
    this.#options = options
  }

  /**
   * When this resolves to `accepted`, the jobs are durable. Rejects with `StoreUnavailable` or `UnknownAccount` if they could
   * not be stored.
   */
  async enqueue(jobs: readonly Job[], options: EnqueueOptions): Promise<Accepted> {
    const { idempotency, awaited, costCap, overBudget = false } = options
    const { store, worker, node, clock, cacheKeyOf } = this.#options
    const keys: (string | null)[] = []
    for (const job of jobs) {
      if (isLarge(job)) await this.#turns.next()
      keys.push(job.cacheTtlMs === 0 ? null : cacheKeyOf(job))
    }
    const places = (overBudget ? null : worker?.reserve(jobs, awaited)) ?? []
    let unused: readonly Place[] = places
    const call = places.length > 0 ? (worker?.assigningCalls.begin() ?? 0) : 0
    try {
      const newJobs: NewJob[] = []
      for (const [index, job] of jobs.entries()) {
        const newJob = this.#newJob(job, index < places.length, awaited, keys[index] ?? null)
        newJobs.push(overBudget ? waitingForBudget(newJob) : newJob)
      }
      const [first] = jobs
      const mayWaitMs = awaited && places.length > 0 && first ? (worker?.acceptanceWaitMs(first) ?? 0) : 0
      const uncapped = { node, jobs: newJobs, idempotency, nowMs: clock.nowMs(), mayWaitMs }
      const acceptance = costCap === undefined ? uncapped : { ...uncapped, costCap }
      const accepted = await store.accept(acceptance)
      if (accepted.kind !== 'accepted') return accepted
      const answered = accepted.answered && new Map(accepted.answered.map((one) => [one.jobId, one]))
      const answeredPlaces: Place[] = []
      unused = answeredPlaces
      const queued: Job[] = []
      for (const [index, job] of jobs.entries()) {
        const answer = answered?.get(job.id)
        const place = places[index]
        if (answer !== undefined) {
          if (place !== undefined) answeredPlaces.push(place)
          this.#answer(job, answer)
        } else if (place !== undefined) void worker?.execute(firstClaim(job), place, keys[index])
        else queued.push(job)
      }
      if (queued.length > 0) worker?.queued(queued)
      if (overBudget) this.#options.budget.added(first?.account ?? '')
      return accepted
    } finally {
      worker?.assigningCalls.end(call)
      if (unused.length > 0) worker?.free(unused)
    }
  }

  #answer(job: Job, answered: AnsweredJob): void {
    const { metrics, clock, afterSettlement } = this.#options
    const claimed = firstClaim(job)
    metrics.started(claimed, clock.nowMs())
    afterSettlement(claimed, cachedResult(answered.contentJson, job), 'settled', 0)
  }

  #newJob(job: Job, handedOff: boolean, awaited: boolean, fingerprint: string | null): NewJob {
    const { stepOf, routeOf } = this.#options
    const route = job.priority === undefined ? routeOf(job) : queueName(routeOf(job), job.priority)
    return {
      job,
      handedOff,
      step: stepOf(job.tier),
      route,
      awaited,
      fingerprint,
    }
  }
}

function waitingForBudget(newJob: NewJob): NewJob {
  const { job } = newJob
  if (job.reserved === undefined) return newJob
  return { ...newJob, job: { ...job, reserved: 0 }, route: queueName(BUDGET_ROUTE, job.priority) }
}

function firstClaim(job: Job): ClaimedJob {
  return { ...job, attempt: 1, crashCount: 0, crashedAlone: false }
}
