/** Finds jobs that wait for the budget of their account: the SQL of both stores. */
import { BUDGET_QUEUES } from './cost-cap-store.ts'
import type { Dialect } from './dialect.ts'
import { textOf } from './rows.ts'
import { read, type Steps, sql } from './sql.ts'

export const costCapOperations = ({ idsOf, isOneOf, job, joinJob }: Dialect) => ({
  areOverBudget: read(function* (jobIds: readonly string[]): Steps<string[]> {
    const rows = yield sql`
      select one.id from (${idsOf(jobIds)}) one ${joinJob(sql`one.id`)}
      where ${job.queued}.turn is not null and ${job.queued}.route ${isOneOf(BUDGET_QUEUES)}`
    return rows.map((row) => textOf(row, 'id'))
  }),
})
