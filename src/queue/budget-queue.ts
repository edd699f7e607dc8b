/**
 * Queues jobs that wait for the budget of their account (`over_cap: wait`) as soon as they fit under its cost cap. Every node
 * that executes jobs does this; the store queues each job once.
 */
import type { Clock } from '../clock.ts'
import type { PricedJob, Prices } from '../job/cost.ts'
import { PRIORITIES, queueName } from '../job/priority.ts'
import type { Tiers } from '../job/tier.ts'
import type { BudgetedJob, BudgetStore, JobOverBudget } from '../store/budget-store.ts'
import type { Store } from '../store/store.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { CurrentPrices } from './current-prices.ts'
import { earlierRunsJson, NO_RUNS } from './earlier-runs.ts'
import { capsOf } from './monthly-caps.ts'

/** Polls because caps change, months end, and jobs finish on other nodes. */
const LOOK_EVERY_MS = 1000
/** Maximum jobs of one statement. Usually not even the first one fits. */
const MAX_STEP = 64

export interface BudgetQueueOptions {
  readonly store: Pick<Store, keyof BudgetStore | 'findOwner'>
  readonly clock: Clock
  readonly tiers: Tiers
  /** Null if no model has a price. */
  readonly prices: CurrentPrices | null
  readonly routeOf: Routes['routeOf']
  /** Called with each route on which jobs were queued. */
  readonly onQueued: (route: string) => void
  readonly onError: (error: unknown) => void
}

export class BudgetQueue {
  readonly #options: BudgetQueueOptions
  /** Accounts that this node knows to have waiting jobs. */
  #waiting: ReadonlySet<string> = new Set()
  /** Accounts whose next job may fit now. */
  readonly #due = new Set<string>()
  #mustLook = false
  #running: Promise<void> | null = null
  #cancelLook: (() => void) | null = null
  #isStopped = false

  constructor(options: BudgetQueueOptions) {
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
    this.#waiting = new Set([...this.#waiting, account])
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
    this.#running ??= this.#runAll().finally(() => {
      this.#running = null
    })
  }

  /** Never rejects. */
  async #runAll(): Promise<void> {
    const { store, clock, onError } = this.#options
    try {
      while (!this.#isStopped && (this.#mustLook || this.#due.size > 0)) {
        if (this.#mustLook) {
          this.#mustLook = false
          this.#waiting = new Set(await store.accountsOverBudget())
          for (const account of this.#waiting) this.#due.add(account)
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
    if (this.#isStopped || (this.#waiting.size === 0 && !this.#mustLook)) return
    this.#cancelLook?.()
    this.#cancelLook = clock.after(LOOK_EVERY_MS, () => this.look())
  }

  /** Queues jobs of the account until one does not fit under its cap. */
  async #queueNext(account: string): Promise<void> {
    const { store, clock, tiers, prices, onQueued } = this.#options
    const known = prices?.() ?? null
    // Waits until the last node of an earlier version has stopped.
    if (prices !== null && known === null) return
    for (let step = 1; !this.#isStopped; step = Math.min(2 * step, MAX_STEP)) {
      const jobs = await store.jobsOverBudget(account, step)
      const owner = jobs.length === 0 ? null : await store.findOwner(account)
      if (owner === null) {
        this.#waiting = this.#waiting.difference(new Set([account]))
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
        // Jobs may have been added during the statement.
        this.#waiting = new Set([...this.#waiting, account])
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
