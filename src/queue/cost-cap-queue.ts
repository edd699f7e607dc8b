/**
 * Queues jobs that wait for the budget of their account (`over_cap: wait`) as soon as the cost cap allows it. Nodes that
 * execute no jobs do this, too: they must know which accounts have such jobs, because new jobs must wait behind them. The store
 * queues each job only once.
 */
import type { Clock } from '../clock.ts'
import type { PricedJob, Prices } from '../job/cost.ts'
import { PRIORITIES, queueName } from '../job/priority.ts'
import type { Tiers } from '../job/tier.ts'
import type { Store } from '../store/store.ts'
import type { BudgetedJob, CostCapStore, JobOverBudget } from '../store/usage-store.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { CurrentPrices } from './current-prices.ts'
import { earlierRunsJson, NO_RUNS } from './execution-result.ts'
import { capsOf } from './job-and-token-caps.ts'

/** The node polls, because no event reports that a cap was changed, a month ended, or a job finished on another node. */
const LOOK_EVERY_MS = 1000
/** A look examines all accounts that may have room now, and at most this many others, so that it stays short. */
const MAX_ACCOUNTS = 100
/** A statement queues at most this many jobs. The first statement tries one job, because usually not even one fits. */
const MAX_STEP = 64

export interface CostCapQueueOptions {
  readonly store: Pick<Store, keyof CostCapStore | 'findOwner'>
  readonly clock: Clock
  readonly tiers: Tiers
  /** `prices` is null if no model has a price. */
  readonly prices: CurrentPrices | null
  readonly routeOf: Routes['routeOf']
  readonly onQueued: (route: string) => void
  readonly onError: (error: unknown) => void
}

export class CostCapQueue {
  readonly #options: CostCapQueueOptions
  #waiting = new Set<string>()
  /** A round examines all waiting accounts, MAX_ACCOUNTS in each look. These are left. */
  #round: string[] = []
  /** The look in progress examines all of these accounts. */
  readonly #due = new Set<string>()
  #startsRound = false
  #mustLook = false
  #running: Promise<void> | null = null
  #cancelLook: (() => void) | null = null
  #isStopped = false

  constructor(options: CostCapQueueOptions) {
    this.#options = options
  }

  /** Whether jobs of the account wait for its budget. New jobs of the account must then wait, too. */
  has(account: string): boolean {
    return this.#waiting.has(account)
  }

  look(): void {
    this.#mustLook = true
    this.#run()
  }

  /** Call this when a job of the account was accepted to wait for the budget. */
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
    // `#running` is reset before the promise resolves, because a call in between must start another look.
    this.#running = null
    if (this.#isStopped || (this.#waiting.size === 0 && !this.#mustLook)) return
    this.#cancelLook?.()
    this.#cancelLook = clock.after(LOOK_EVERY_MS, () => {
      // Finding out which accounts wait takes longer the more there are, so each round does it only once.
      this.#startsRound = this.#round.length === 0
      this.#mustLook ||= this.#startsRound
      this.#continueRound()
      this.#run()
    })
  }

  #continueRound(): void {
    for (const account of this.#round.splice(0, MAX_ACCOUNTS)) this.#due.add(account)
  }

  async #queueNext(account: string): Promise<void> {
    const { store, clock, tiers, prices, onQueued } = this.#options
    const known = prices?.() ?? null
    // While a node of an earlier version runs, prices have no effect, so the jobs of all accounts wait.
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
        // If the account's first job was accepted while the look read the waiting accounts, the look may have missed the
        // account.
        this.#waiting.add(account)
        return
      }
    }
  }

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
