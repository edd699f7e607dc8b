/**
 * What accounts have used, have open and have stored, and their jobs that wait for budget: the part of the storage contract for
 * caps and quotas.
 */
import { PRIORITIES, queueName } from '../job/priority.ts'

/**
 * The transaction that settles a job adds the job's usage, so every job counts exactly once, even after a crash. Usage is kept
 * when jobs are deleted.
 */
export interface UsageStore {
  /** Returns usage, newest month first, then by account and model. */
  listUsage(search: UsageSearch): Promise<UsageRecord[]>

  /** Returns what counts against the account's caps in that month. The cost is bounded, even if many jobs are queued. */
  used(account: string, month: string): Promise<Used>

  /**
   * Returns what the account has open and stored now. Every write that accepts, settles, deletes or expires jobs updates these
   * sums in its transaction, so the cost does not grow with the number of jobs.
   */
  quotaUse(account: string): Promise<QuotaUse>
}

export interface QuotaUse {
  readonly openJobs: number
  /** The bytes of all stored jobs, as `stored-bytes.ts` counts them, and of all files. */
  readonly storedBytes: number
  /** The maximum cost of the open jobs (`Job.reserved`), in millionths of the currency; absent if 0. */
  readonly reserved?: number
}

export interface UsageSearch {
  readonly account?: string
  /** A month as `job/month.ts` writes it. */
  readonly month?: string
  /** The last row of the previous page. */
  readonly after?: UsageKey
  readonly limit: number
}

export interface UsageKey {
  readonly account: string
  readonly month: string
  /** The public model name in the requests. */
  readonly model: string
}

export interface UsageRecord extends UsageKey {
  /** Jobs that finished in that month, including failed ones. */
  readonly jobs: number
  readonly failedJobs: number
  /** Jobs that the response cache completed, at no cost. */
  readonly cacheHits: number
  /** Calls to model servers, including failed ones. */
  readonly calls: number
  /** Tokens of all calls, as the model servers counted them. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** In millionths of the currency; absent if no model of the jobs had a price. */
  readonly cost?: number
}

export interface Used {
  readonly jobs: number
  /** Jobs that are queued or running, up to `MAX_OPEN_COUNTED`. */
  readonly openJobs: number
  readonly tokens: number
}

export const MAX_OPEN_COUNTED = 100_000

/**
 * The route of jobs that wait for the budget of their account. No target can have this name, because names of targets contain a
 * slash.
 */
export const BUDGET_ROUTE = 'budget'

/** The names of the route's queues, highest priority first. */
export const BUDGET_QUEUES: readonly string[] = PRIORITIES.map((priority) =>
  queueName(BUDGET_ROUTE, priority),
)

/**
 * Jobs that wait for the budget of their account. They did not fit under its cost cap, and were accepted because the tier's
 * `over_cap` is `wait`. No node claims from their route. They reserve nothing (`Job.reserved` is 0) until they move to the
 * route of their targets.
 */
export interface CostCapStore {
  /**
   * Returns the accounts with jobs that wait for budget. The cost grows with the number of accounts that have queued jobs, not
   * with the number of jobs.
   */
  accountsOverBudget(): Promise<string[]>

  /** Returns the account's next jobs that wait for budget: by priority, then in order of acceptance. */
  jobsOverBudget(account: string, limit: number): Promise<JobOverBudget[]>

  /**
   * Moves these jobs to their routes, in order, until one does not fit under the account's cap, and reserves what they may
   * cost, in one transaction. It skips jobs that no longer wait for budget, so a second call changes nothing.
   */
  queueWithinBudget(budgeted: BudgetedJobs): Promise<QueuedWithinBudget>

  /** Returns which of the jobs wait for the budget of their account. */
  areOverBudget(jobIds: readonly string[]): Promise<string[]>
}

export interface JobOverBudget {
  readonly id: string
  readonly model: string
  readonly tier: string
  readonly inputTokens: number
  readonly responseFormatJson: string
  readonly priority: string | null
}

export interface BudgetedJobs {
  readonly account: string
  /** The account's cost cap, as in `Acceptance`; null for no cap. */
  readonly costCap: number | null
  readonly jobs: readonly BudgetedJob[]
  /**
   * What the moved jobs store about earlier runs, as `queue/earlier-runs.ts` writes it. Their wait for model servers starts
   * now.
   */
  readonly earlierJson: string
  readonly nowMs: number
}

export interface BudgetedJob {
  readonly jobId: string
  readonly reserved: number
  /** The name of the queue that the job joins, as in `NewJob`. */
  readonly route: string
  readonly step: number
}

export interface QueuedWithinBudget {
  readonly routes: readonly string[]
  /** True if one of the jobs did not fit under the cap. */
  readonly isCapReached: boolean
}
