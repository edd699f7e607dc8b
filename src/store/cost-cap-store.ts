/**
 * Jobs that wait for the budget of their account: they were accepted although they did not fit under the account's cost cap,
 * because the tier's `over_cap` is `wait`. They are queued on a separate route, from which no node claims. They reserve nothing
 * (`Job.reserved` is 0) until they move to the route of their targets.
 */
import { PRIORITIES, queueName } from '../job/priority.ts'

/** The name of no other route: names of targets contain a slash. */
export const BUDGET_ROUTE = 'budget'

/** The queues of all priorities, highest first. */
export const BUDGET_QUEUES: readonly string[] = PRIORITIES.map((priority) =>
  queueName(BUDGET_ROUTE, priority),
)

export interface CostCapStore {
  /** Returns the accounts with jobs that wait for budget. The cost grows with the number of accounts that have queued jobs. */
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
  /** The new state of earlier runs (`queue/execution-result.ts`). The wait for model servers starts now. */
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
  /** The routes of the jobs that were moved. */
  readonly routes: readonly string[]
  /** Whether one of the jobs did not fit under the cap. */
  readonly isCapReached: boolean
}
