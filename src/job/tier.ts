/** Tiers: the limits and permissions of accounts (SPEC §8), and their weight in the fair order. */

import type { Priority } from './priority.ts'

export interface Tier {
  /** The name in the settings. */
  readonly name: string
  /** The public model names that jobs may use. */
  readonly models: ReadonlySet<string>
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  /** How many jobs an account may create per minute on each node; null for no limit. */
  readonly createsPerMinute: number | null
  readonly maxInputTokens: number
  /** The limit of tokens for one answer; null for no limit. */
  readonly maxOutputTokens: number | null
  /** The priorities that jobs may request. Without one, they have `normal`. */
  readonly priorities: ReadonlySet<Priority>
  /** Accounts share slots in proportion to this while jobs are queued. */
  readonly weight: number
  /** What an account may use per month: jobs, and input plus output tokens; null for no cap. */
  readonly maxMonthlyJobs: number | null
  readonly maxMonthlyTokens: number | null
  /** In millionths of the currency. */
  readonly maxMonthlyCost: number | null
  /** What happens to jobs that do not fit under the cost cap. */
  readonly overCap: 'reject' | 'wait'
  /** How many jobs an account may have queued or assigned, and how many bytes it may store; null for no limit. */
  readonly maxOpenJobs: number | null
  readonly maxStoredBytes: number | null
  /** The maximum number of files of an account, and the maximum bytes of one file. */
  readonly maxFiles: number
  readonly maxFileBytes: number
  /** Maximum lines in the input file of a batch. */
  readonly maxBatchLines: number
}

/**
 * The tier of jobs and accounts whose tier no longer exists. It permits no model, so its accounts cannot create jobs; most
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
   * Returns the step of the tier: the least distance from the turn of an account's last queued job on a route to the turn of its
   * next one. Twice the weight halves the step.
   *
   * This is start-time fair queueing, which both stores implement (`store/sqlite/fair-order.ts`,
   * `store/postgres/fair-order.ts`). When a job joins the queue of its route, its **turn** is the highest of three: the turn up
   * to which the route has been claimed, the turn of the first job in that queue, and one step after the turn of the last
   * queued job of its account on that route. Claims take the job with the lowest turn first. So an account with a hundred
   * thousand queued jobs delays only its own jobs, and a claim is one index scan.
   */
  readonly stepOf = (name: string): number => Math.max(1, Math.round(1000 / this.of(name).weight))
}
