/** Tiers: the limits and permissions of accounts (docs/limits.md), and their weight in the fair order. */
import type { Priority } from './priority.ts'

export interface Tier {
  readonly name: string
  readonly models: ReadonlySet<string>
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  /** Each node has its own count. */
  readonly createsPerMinute: number | null
  readonly maxInputTokens: number
  readonly maxOutputTokens: number | null
  /** The priorities that a job may request. A job that requests none has `normal`. */
  readonly priorities: ReadonlySet<Priority>
  /** While jobs are queued, accounts share slots in proportion to their weights. */
  readonly weight: number
  readonly maxMonthlyJobs: number | null
  readonly maxMonthlyTokens: number | null
  /** The unit is a millionth of the currency. */
  readonly maxMonthlyCost: number | null
  /** Jobs that do not fit under the cost cap are rejected, or wait for budget. */
  readonly overCap: 'reject' | 'wait'
  readonly maxOpenJobs: number | null
  readonly maxStoredBytes: number | null
  readonly maxFiles: number
  readonly maxFileBytes: number
  readonly maxBatchLines: number
}

/** Replaces a tier that the settings no longer have. It permits no model, so its accounts cannot create jobs. */
const NO_TIER: Tier = {
  name: 'none',
  models: new Set(),
  maxBatchJobs: 1,
  readsPerMinute: 1,
  createsPerMinute: null,
  maxInputTokens: 1,
  maxOutputTokens: 1,
  priorities: new Set(),
  weight: 1,
  maxMonthlyJobs: null,
  maxMonthlyTokens: null,
  maxMonthlyCost: null,
  overCap: 'reject',
  maxOpenJobs: null,
  maxStoredBytes: null,
  maxFiles: 1,
  maxFileBytes: 1,
  maxBatchLines: 1,
}

export class Tiers {
  readonly #byName: ReadonlyMap<string, Tier>

  constructor(tiers: readonly Tier[]) {
    this.#byName = new Map(tiers.map((tier) => [tier.name, tier]))
  }

  of(name: string): Tier {
    return this.#byName.get(name) ?? NO_TIER
  }

  /**
   * Returns the least distance between the turns of an account's consecutive jobs on a route. Doubling the weight halves it.
   *
   * Both stores implement start-time fair queueing (`fair-order.ts`). When a job joins the queue of its route, its **turn** is
   * the highest of three: the turn up to which the route has been claimed, the turn of the first job in that queue, and one
   * step after the turn of the last queued job of its account on that route. Claims take the lowest turn first. So an account
   * with a hundred thousand queued jobs delays mostly its own jobs.
   */
  readonly stepOf = (name: string): number => Math.max(1, Math.round(1000 / this.of(name).weight))
}
