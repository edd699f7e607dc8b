/**
 * Queues jobs that wait for the budget of their account (`over_cap: wait`) as soon as they fit under its cost cap. Every node
 * does this, even one that executes no jobs, because new jobs must wait behind those that already wait. The store queues each
 * job only once.
 */
import type { Clock } from '../clock.ts'
import type { PricedJob, Prices } from '../job/cost.ts'
import { PRIORITIES, queueName } from '../job/priority.ts'
import type { Tiers } from '../job/tier.ts'
import type { Store } from '../store/store.ts'
import type { BudgetedJob, CostCapStore, JobOverBudget } from '../store/usage-store.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { CurrentPrices } from './current-prices.ts'
import { earlierRunsJson, NO_RUNS } from './earlier-runs.ts'
import { capsOf } from './job-and-token-caps.ts'

/** Polls, because no event reports that a cap was changed, a month ended, or a job finished on another node. */
const LOOK_EVERY_MS = 1000
/** A look examines all accounts that may have room now, and at most this many others, so that it stays short. */
const MAX_ACCOUNTS = 100
/** The maximum number of jobs of one statement. The first statement tries one job, because usually not even one fits. */
const MAX_STEP = 64

export interface CostCapQueueOptions {
  readonly store: Pick<Store, keyof CostCapStore | 'findOwner'>
  readonly clock: Clock
  readonly tiers: Tiers
  /** Null if no model has a price. */
  readonly prices: CurrentPrices | null
  readonly routeOf: Routes['routeOf']
  /** Called with each route on which jobs were queued. */
  readonly onQueued: (route: string) => void
  readonly onError: (error: unknown) => void
}

export class CostCapQueue {
  readonly #options: CostCapQueueOptions
  /** Accounts whose jobs wait, as far as this node knows. */
  #waiting = new Set<string>()
  /** The waiting accounts that the current round has not examined yet. A round examines all of them, MAX_ACCOUNTS per look. */
  #round: string[] = []
  /** Accounts to examine in this look, because they may have room now. */
  readonly #due = new Set<string>()
  #startsRound = false
  #mustLook = false
  #running: Promise<void> | null = null
  #cancelLook: (() => void) | null = null
  #isStopped = false

  constructor(options: CostCapQueueOptions) {
    this.#options = options
  }

  /** Whether jobs of the account wait, so that new ones must wait behind them. */
  has(account: string): boolean {
    return this.#waiting.has(account)
  }

  /** Looks for waiting jobs of all accounts. */
  look(): void {
    this.#mustLook = true
    this.#run()
  }

  /** Call this when a job of the account was accepted to wait. */
  added(account: string): void {
    this.#waiting.add(account)
    this.#due.add(account)
    this.#run()
  }

  /** Call this when a job of the account has finished, because it may have cost less than it had reserved. */
  jobEnded(account: string): void {
    if (!this.#waiting.has(account)) return
    this.#due.add(account)
    this.#run()
  }

  /** Resolves when no statement is in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelLook?.()
    await this.#running
  }

  #run(): void {
    if (this.#isStopped) return
    this.#running ??= this.#runAll()
  }

  /** Never rejects. */
  async #runAll(): Promise<void> {
    const { store, clock, onError } = this.#options
    try {
      while (!this.#isStopped && (this.#mustLook || this.#due.size > 0)) {
        if (this.#mustLook) {
          this.#mustLook = false
          const found = new Set(await store.accountsOverBudget())
          for (const account of found.difference(this.#waiting)) this.#due.add(account)
          this.#waiting = found
          if (this.#startsRound) {
            this.#round = [...found]
            this.#continueRound()
            this.#startsRound = false
          }
        }
        for (const account of this.#due) {
          this.#due.delete(account)
          await this.#queueNext(account)
        }
      }
    } catch (error) {
      this.#mustLook = true
      onError(error)
    }
    // Reset at once, not when the promise resolves: a call in between must start another look.
    this.#running = null
    if (this.#isStopped || (this.#waiting.size === 0 && !this.#mustLook)) return
    this.#cancelLook?.()
    this.#cancelLook = clock.after(LOOK_EVERY_MS, () => {
      // Reading which accounts wait takes longer the more there are, so it is done only once a round.
      this.#startsRound = this.#round.length === 0
      this.#mustLook ||= this.#startsRound
      this.#continueRound()
      this.#run()
    })
  }

  #continueRound(): void {
    for (const account of this.#round.splice(0, MAX_ACCOUNTS)) this.#due.add(account)
  }

  /** Queues jobs of the account until one does not fit under its cap. */
  async #queueNext(account: string): Promise<void> {
    const { store, clock, tiers, prices, onQueued } = this.#options
    const known = prices?.() ?? null
    // Jobs of all accounts wait until the last node of an earlier version has stopped.
    if (prices !== null && known === null) return
    for (let step = 1; !this.#isStopped; step = Math.min(2 * step, MAX_STEP)) {
      const jobs = await store.jobsOverBudget(account, step)
      const owner = jobs.length === 0 ? null : await store.findOwner(account)
      if (owner === null) {
        this.#waiting.delete(account)
        return
      }
      const cap = known && (capsOf(account, tiers.of(owner.tier), owner.caps)?.cost ?? null)
      const { routes, isCapReached } = await store.queueWithinBudget({
        account,
        costCap: cap?.limit ?? null,
        jobs: jobs.map((job) => this.#budgeted(job, known)),
        earlierJson: earlierRunsJson({ ...NO_RUNS, sinceMs: clock.nowMs() }),
        nowMs: clock.nowMs(),
      })
      for (const route of new Set(routes)) onQueued(route)
      if (isCapReached) {
        // The look may have missed the account, if its first job was accepted while the look read the waiting accounts.
        this.#waiting.add(account)
        return
      }
    }
  }

  /** Computes what the job reserves at the current prices. */
  #budgeted(job: JobOverBudget, prices: Prices | null): BudgetedJob {
    const { tiers, routeOf } = this.#options
    const priority = PRIORITIES.find((one) => one === job.priority)
    const priced: PricedJob = job
    return {
      jobId: job.id,
      reserved: prices?.estimateOf(priced, tiers.of(job.tier).models) ?? 0,
      route: queueName(routeOf(job), priority),
      step: tiers.stepOf(job.tier),
    }
  }
}
