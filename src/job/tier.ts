/** Tiers: the limits and permissions of accounts (SPEC §8), and their weight in the fair order. */

import type { Priority } from './priority.ts'

export interface Tier {
  readonly name: string
  /** The public model names that jobs may use. */
  readonly models: ReadonlySet<string>
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  /** For each account on each node; null for no limit. */
  readonly createsPerMinute: number | null
  readonly maxInputTokens: number
  /** Maximum tokens of one answer; null for no limit. */
  readonly maxOutputTokens: number | null
  /** The priorities that jobs may request. A job that requests none has `normal`. */
  readonly priorities: ReadonlySet<Priority>
  /** While jobs are queued, accounts share slots in proportion to their weights. */
  readonly weight: number
  /** What an account may use in a month; null for no cap. Tokens are input plus output. */
  readonly maxMonthlyJobs: number | null
  readonly maxMonthlyTokens: number | null
  /** In millionths of the currency; null for no cap. */
  readonly maxMonthlyCost: number | null
  /** What happens to jobs that do not fit under the cost cap. */
  readonly overCap: 'reject' | 'wait'
  /** The quotas of an account: queued and assigned jobs, and bytes; null for no limit. */
  readonly maxOpenJobs: number | null
  readonly maxStoredBytes: number | null
  readonly maxFiles: number
  readonly maxFileBytes: number
  readonly maxBatchLines: number
}

/**
 * Stands for a tier that was removed from the settings. It permits no model, so its accounts cannot create jobs. Most of its
 * other limits are the lowest possible.
 */
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
   * Returns the distance from the turn of an account's last queued job on a route to the turn of its next one. Twice the weight
   * halves this step.
   *
   * This is start-time fair queueing, which both stores implement (`store/sqlite/fair-order.ts`,
   * `store/postgres/fair-order.ts`). When a job joins the queue of its route, its **turn** is the highest of three: the turn up
   * to which the route has been claimed, the turn of the first job in that queue, and one step after the turn of the last
   * queued job of its account on that route. Claims take the job with the lowest turn first. So an account with a hundred
   * thousand queued jobs delays only its own jobs, and a claim is one index scan.
   */
  readonly stepOf = (name: string): number => Math.max(1, Math.round(1000 / this.of(name).weight))
}
