/**
 * What accounts have used and stored, and their jobs that wait for budget: the part of the storage contract for caps and
 * quotas.
 */
import { PRIORITIES, queueName } from '../job/priority.ts'

/** The transaction that finishes a job adds its usage, so each job counts exactly once. Usage outlives the jobs. */
export interface UsageStore {
  /** Returns the newest month first, in order of account and model. */
  listUsage(search: UsageSearch): Promise<UsageRecord[]>

  /** The cost is bounded, even if many jobs are queued. */
  used(account: string, month: string): Promise<Used>

  /**
   * Every write that accepts, settles, deletes or expires jobs also updates these sums, so the cost does not grow with the
   * jobs.
   */
  quotaUse(account: string): Promise<QuotaUse>
}

export interface QuotaUse {
  readonly openJobs: number
  /** Includes the bytes of all files. `stored-bytes.ts` counts those of jobs. */
  readonly storedBytes: number
  /** What the open jobs may cost together, in millionths of the currency; absent if 0. */
  readonly reserved?: number
}

export interface UsageSearch {
  readonly account?: string
  readonly month?: string
  readonly after?: UsageKey
  readonly limit: number
}

export interface UsageKey {
  readonly account: string
  readonly month: string
  readonly model: string
}

export interface UsageRecord extends UsageKey {
  readonly jobs: number
  readonly failedJobs: number
  readonly cacheHits: number
  readonly calls: number
  /** Tokens are summed over all calls. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** The cost is in millionths of the currency; absent if no job had a model with a price. */
  readonly cost?: number
}

export interface Used {
  readonly jobs: number
  /** Counting stops at `MAX_OPEN_COUNTED`. */
  readonly openJobs: number
  readonly tokens: number
}

export const MAX_OPEN_COUNTED = 100_000

/** No target can have this name, because names of targets contain a slash. */
export const BUDGET_ROUTE = 'budget'

export const BUDGET_QUEUES: readonly string[] = PRIORITIES.map((priority) =>
  queueName(BUDGET_ROUTE, priority),
)

/**
 * Jobs that wait for the budget of their account: they did not fit under its cost cap, and the tier's `over_cap` is `wait`. No
 * node claims from their route. They reserve nothing (`Job.reserved` is 0) until they move to the route of their targets.
 */
export interface CostCapStore {
  /** The cost grows with the number of accounts that have queued jobs, not with the number of jobs. */
  accountsOverBudget(): Promise<string[]>

  /** Returns jobs by priority, then in order of acceptance. */
  jobsOverBudget(account: string, limit: number): Promise<JobOverBudget[]>

  /**
   * Moves these jobs to their routes, in order, until one does not fit under the account's cap, and reserves what they may
   * cost, in one transaction. Jobs that no longer wait for budget are skipped, so a second call does not move a job again.
   */
  queueWithinBudget(budgeted: BudgetedJobs): Promise<QueuedWithinBudget>

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
  readonly costCap: number | null
  readonly jobs: readonly BudgetedJob[]
  /** `queue/execution-result.ts` defines this text. The wait of the jobs for model servers starts now. */
  readonly earlierJson: string
  readonly nowMs: number
}

export interface BudgetedJob {
  readonly jobId: string
  readonly reserved: number
  readonly route: string
  readonly step: number
}

export interface QueuedWithinBudget {
  readonly routes: readonly string[]
  readonly isCapReached: boolean
}
