/** What a tier allows (SPEC §8). */

import type { Priority } from './priority.ts'

export interface Tier {
  /** As configured. */
  readonly name: string
  /** Public model names. */
  readonly models: ReadonlySet<string>
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  /** Jobs that an account may create, on each node; null for no limit. */
  readonly createsPerMinute: number | null
  readonly maxInputTokens: number
  /** Of one answer; null for no limit. */
  readonly maxOutputTokens: number | null
  /** Those that its jobs may say. A job that says none is normal. */
  readonly priorities: ReadonlySet<Priority>
  /** Share of the slots while jobs are queued. */
  readonly weight: number
  /** Jobs, and input and output tokens, of an account in a month; null for no cap. */
  readonly maxMonthlyJobs: number | null
  readonly maxMonthlyTokens: number | null
  /** In millionths of the currency. */
  readonly maxMonthlyCost: number | null
  /** What becomes of jobs for which a cap in money has no room. */
  readonly overCap: 'reject' | 'wait'
  /** Jobs of an account that are queued or assigned, and bytes that its jobs store; null for no limit. */
  readonly maxOpenJobs: number | null
  readonly maxStoredBytes: number | null
  /** Files of an account, and the bytes of one. */
  readonly maxFiles: number
  readonly maxFileBytes: number
  /** Lines of the input file of a batch. */
  readonly maxBatchLines: number
}

/** For jobs and accounts whose tier no longer exists: the minimum of each limit. */
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
   * How far a queued job of the tier moves its account's next turn: with twice the weight, half as far.
   *
   * This is start-time fair queueing, and both stores implement it (`store/sqlite/fair-order.ts`,
   * `store/postgres/fair-order.ts`): a job that is queued takes as its **turn** the latest of its route's turn (that of the
   * job claimed last), the turn at the head of the route, and one step after the last queued job of its account there. Claims of a
   * route take the least turn first. So an
   * account with a hundred thousand queued jobs delays only its own, and a claim stays one index scan.
   */
  readonly stepOf = (name: string): number => Math.max(1, Math.round(1000 / this.of(name).weight))
}
