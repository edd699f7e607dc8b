/**
 * Jobs that wait for the budget of their account: they were accepted although its cap in money had no room for them (`over_cap` of
 * its tier). They are queued on a route of their own, from which nobody claims, and reserve nothing (`Job.reserved` is 0) until
 * they are queued on the route of their targets.
 */
import { PRIORITIES, queueName } from '../job/priority.ts'

/** No target is named like this, because it has no slash. */
export const BUDGET_ROUTE = 'budget'

/** Of all priorities, the highest first. */
export const BUDGET_QUEUES: readonly string[] = PRIORITIES.map((priority) =>
  queueName(BUDGET_ROUTE, priority),
)

export interface BudgetStore {
  /** The accounts whose jobs wait for their budget. The cost grows with the number of accounts that have queued jobs. */
  accountsOverBudget(): Promise<string[]>

  /** The next of the account's jobs that wait for its budget: by priority, and then in the order in which they were accepted. */
  jobsOverBudget(account: string, limit: number): Promise<JobOverBudget[]>

  /**
   * Queues the first of these jobs, up to one that the account's cap has no room for, on their routes: they reserve what they may
   * cost, in the same transaction. Jobs that do not wait for the budget any longer are passed over, so a second call changes
   * nothing.
   */
  queueWithinBudget(budgeted: BudgetedJobs): Promise<QueuedWithinBudget>

  /** Those of the jobs that wait for the budget of their account. */
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
  /** As in `Acceptance`; null for no cap. */
  readonly costCap: number | null
  readonly jobs: readonly BudgetedJob[]
  /** Stored as the state of earlier runs, by which the wait for model servers starts now. */
  readonly earlierJson: string
  readonly nowMs: number
}

export interface BudgetedJob {
  readonly jobId: string
  readonly reserved: number
  /** As in `NewJob`. */
  readonly route: string
  readonly step: number
}

export interface QueuedWithinBudget {
  /** Of each job that was queued. */
  readonly routes: readonly string[]
  /** Whether the cap had no room for one of the jobs. */
  readonly isCapReached: boolean
}
