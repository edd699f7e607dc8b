/** Jobs in the reference store that wait until their account's budget has room for them. */
import { monthOf } from '../../../src/job/month.ts'
import {
  BUDGET_QUEUES,
  type BudgetedJobs,
  type JobOverBudget,
  type QueuedWithinBudget,
} from '../../../src/store/cost-cap-store.ts'
import type { JobRow, MemoryDatabase } from './database.ts'

export function costCapOperations(db: MemoryDatabase) {
  const waiting = () => db.queued().filter(isOver)
  return {
    accountsOverBudget: (): string[] => [...new Set(waiting().map(({ job }) => job.account))],

    jobsOverBudget(account: string, limit: number): JobOverBudget[] {
      const rows = BUDGET_QUEUES.flatMap((queue) => waiting().filter(({ route }) => route === queue))
      return rows
        .filter(({ job }) => job.account === account)
        .slice(0, limit)
        .map(({ job: { id, model, tier, inputTokens, responseFormatJson, priority = null } }) => {
          return { id, model, tier, inputTokens, responseFormatJson, priority }
        })
    },

    queueWithinBudget(budgeted: BudgetedJobs): QueuedWithinBudget {
      const { account, costCap, jobs, earlierJson, nowMs } = budgeted
      const routes: string[] = []
      for (const { jobId, reserved, route, step } of jobs) {
        const row = db.jobs.get(jobId)
        if (!row || !isOver(row)) continue
        if (costUsed(db, account, nowMs) + reserved > (costCap ?? Number.POSITIVE_INFINITY))
          return { routes, isCapReached: true }
        Object.assign(row, { job: { ...row.job, reserved }, earlierJson, waitsSinceMs: nowMs, waitedMs: 0 })
        Object.assign(row, { route, turn: null })
        row.turn = db.nextTurn(account, route, step)
        db.joined(route, row.turn)
        routes.push(route)
      }
      return { routes, isCapReached: false }
    },

    areOverBudget: (jobIds: readonly string[]): string[] =>
      jobIds.filter((id) => {
        const row = db.jobs.get(id)
        return row !== undefined && isOver(row)
      }),
  }
}

function isOver({ turn, route }: JobRow): boolean {
  return turn !== null && BUDGET_QUEUES.includes(route)
}

/** Returns the account's cost of the month: that of its ended jobs, and what its open ones have reserved. */
export function costUsed(db: MemoryDatabase, account: string, nowMs: number): number {
  let used = 0
  for (const row of db.usage.values()) {
    if (row.account === account && row.month === monthOf(nowMs)) used += row.cost ?? 0
  }
  for (const { job } of db.open) if (job.account === account) used += job.reserved ?? 0
  return used
}
