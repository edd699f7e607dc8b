/** What a tier allows (SPEC §8). */

import type { Priority } from './priority.ts'

export interface Tier {
  /** The configured name. */
  readonly name: string
  /** The public model names that jobs may use. */
  readonly models: ReadonlySet<string>
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  /** Jobs that an account may create per minute on each node; null for no limit. */
  readonly createsPerMinute: number | null
  readonly maxInputTokens: number
  /** The limit for one answer; null for no limit. */
  readonly maxOutputTokens: number | null
  /** The priorities that jobs may have. The default is normal. */
  readonly priorities: ReadonlySet<Priority>
  /** The share of the slots while jobs are queued. */
  readonly weight: number
  /** Jobs, and input plus output tokens, of an account per month; null for no cap. */
  readonly maxMonthlyJobs: number | null
  readonly maxMonthlyTokens: number | null
  /** In millionths of the currency. */
  readonly maxMonthlyCost: number | null
  /** What happens to jobs that do not fit under the cost cap. */
  readonly overCap: 'reject' | 'wait'
  /** Jobs of an account that are queued or assigned, and bytes that its jobs store; null for no limit. */
  readonly maxOpenJobs: number | null
  readonly maxStoredBytes: number | null
  /** The number of files of an account, and the maximum bytes of one. */
  readonly maxFiles: number
  readonly maxFileBytes: number
  /** Maximum lines in the input file of a batch. */
  readonly maxBatchLines: number
}

/** The tier of jobs and accounts whose tier no longer exists: the minimum of each limit. */
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
   * How far a queued job of the tier moves its account's next turn: half as far with twice the weight. This is start-time fair
   * queueing, which both stores implement (`store/sqlite/fair-order.ts`, `store/postgres/fair-order.ts`). A queued job gets as
   * its **turn** the latest of: its route's turn (that of the job claimed last), the turn of the route's first job, and one step
   * after the last queued job of its account there. Claims take the least turn first. So an account with a hundred thousand
   * queued jobs delays only its own, and a claim is one index scan.
   */
  readonly stepOf = (name: string): number => Math.max(1, Math.round(1000 / this.of(name).weight))
}
