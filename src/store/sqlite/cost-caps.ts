/**
 * Computes what counts towards the cost cap of an account in SQLite, and queues the jobs that wait for the budget of their
 * account. `accept.ts` compares; `queue/job-creator.ts` decides whether jobs may wait.
 */
import { monthOf } from '../../job/month.ts'
import {
  BUDGET_QUEUES,
  type BudgetedJobs,
  type JobOverBudget,
  type QueuedWithinBudget,
} from '../usage-store.ts'
import { nextTurn } from './fair-order.ts'
import type { ServedFile } from './open-file.ts'
import { read, write } from './operation.ts'

const QUEUES = JSON.stringify(BUDGET_QUEUES)

export const costCapOperations = {
  accountsOverBudget: read((file: ServedFile): string[] =>
    file.cells(ACCOUNTS, QUEUES).map(([account]) => String(account)),
  ),

  jobsOverBudget: read((file: ServedFile, account: string, limit: number): JobOverBudget[] => {
    const found: JobOverBudget[] = []
    for (const queue of BUDGET_QUEUES) {
      if (found.length === limit) break
      for (const row of file.cells(JOBS, account, queue, limit - found.length)) {
        const [id, model, tier, inputTokens, responseFormat, priority] = row
        found.push({
          id: String(id),
          model: String(model),
          tier: String(tier),
          inputTokens: Number(inputTokens),
          responseFormatJson: String(responseFormat),
          priority: typeof priority === 'string' ? priority : null,
        })
      }
    }
    return found
  }),

  queueWithinBudget: write((file: ServedFile, budgeted: BudgetedJobs): QueuedWithinBudget => {
    const { account, costCap, jobs, earlierJson, nowMs } = budgeted
    const limit = costCap ?? Number.POSITIVE_INFINITY
    let used = costOf(file, account, nowMs)
    const routes: string[] = []
    for (const { jobId, reserved, route, step } of jobs) {
      if (file.prepare(IS_OVER).get(jobId, QUEUES) === undefined) continue
      if (used + reserved > limit) return { routes, isCapReached: true }
      const turn = nextTurn(file, account, route, step)
      file.prepare(QUEUE).run(turn, route, reserved, earlierJson, nowMs, jobId)
      file.places.joined(route, turn)
      file.quotas.add(account, 0, 0, reserved)
      used += reserved
      routes.push(route)
    }
    return { routes, isCapReached: false }
  }),
}

/** Returns what the account's finished jobs cost this month, plus what its open jobs may cost. */
export function costOf(file: ServedFile, account: string, nowMs: number): number {
  return file.usage.costOf(file, account, monthOf(nowMs)) + file.quotas.reservedOf(file, account)
}

/** The recursion jumps in the index from one account to the next, without reading the jobs in between. */
const ACCOUNTS = `
  with recursive found (account) as (
    select min(account) from jobs indexed by jobs_in_lanes where turn is not null and deaths = 0
    union all
    select (select min(j.account) from jobs j indexed by jobs_in_lanes where j.turn is not null and j.deaths = 0 and j.account > f.account)
    from found f where f.account is not null
  )
  select account from found f where account is not null and exists (
    select 1 from jobs j indexed by jobs_in_lanes
    where j.turn is not null and j.deaths = 0 and j.account = f.account and j.route in (select value from json_each(?))
  )`
const JOBS = `
  select j.id, j.model, j.tier, j.input_tokens, r.response_format, j.priority
  from jobs j indexed by jobs_in_lanes join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths = 0 and j.account = ? and j.route = ? order by j.turn, j.id limit ?`
const IS_OVER =
  'select 1 from jobs where id = ? and turn is not null and route in (select value from json_each(?))'
const QUEUE = `
  update jobs set turn = ?, route = ?, reserved = ?, earlier = ?, waits_since_ms = ?, waited_ms = 0 where id = ?`
