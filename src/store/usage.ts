/**
 * Both stores share this SQL, which lists the usage of accounts, reads what they use of their caps and quotas, and finds jobs
 * that wait for budget.
 */
import type { Dialect } from './dialect.ts'
import { numberOf, numberOrNull, type Row, textOf } from './rows.ts'
import { allOf, read, type Sql, type Steps, sql, type Value } from './sql.ts'
import {
  BUDGET_QUEUES,
  MAX_OPEN_COUNTED,
  type QuotaUse,
  type UsageRecord,
  type UsageSearch,
  type Used,
} from './usage-store.ts'

export const usageOperations = ({ openJobsOf, quotaUseOf, usage }: Dialect) => ({
  listUsage: read(function* ({ account, month, after, limit }: UsageSearch): Steps<UsageRecord[]> {
    const which = allOf(
      account === undefined ? undefined : sql`account = ${account}`,
      month === undefined ? undefined : sql`month = ${month}`,
      after &&
        sql`(month < ${after.month} or
        (month = ${after.month} and (account, model) > (${after.account}, ${after.model})))`,
    )
    return (yield sql`${usage(which)} order by month desc, account, model limit ${limit}`).map(readUsage)
  }),

  used: read(function* (account: string, month: string): Steps<Used> {
    // Adds floating-point numbers, because a sum of integers over all models could overflow in SQLite.
    const [row = {}] = yield sql`
      select coalesce(sum(jobs), 0) as jobs, coalesce(sum(1.0 * input_tokens + output_tokens), 0) as tokens,
        ${openJobsOf(account)} as open_jobs
      from (${usage(sql`account = ${account} and month = ${month}`)}) u`
    return {
      jobs: numberOf(row, 'jobs'),
      openJobs: Math.min(numberOf(row, 'open_jobs'), MAX_OPEN_COUNTED),
      tokens: numberOf(row, 'tokens'),
    }
  }),

  quotaUse: read(function* (account: string): Steps<QuotaUse> {
    const [row = {}] = yield sql`
      select coalesce(q.open_jobs, 0) as open_jobs, coalesce(q.stored_bytes, 0) as stored_bytes,
        coalesce(q.reserved, 0) as reserved, f.file_bytes
      from (select ${fileBytesOf(account)} as file_bytes) f left join (${quotaUseOf(account)}) q on true`
    return readQuotaUse(row)
  }),
})

export const USAGE_COLUMNS =
  'account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens, cost'

function readUsage(row: Row): UsageRecord {
  const cost = numberOrNull(row, 'cost')
  return {
    account: textOf(row, 'account'),
    month: textOf(row, 'month'),
    model: textOf(row, 'model'),
    jobs: numberOf(row, 'jobs'),
    failedJobs: numberOf(row, 'failed_jobs'),
    cacheHits: numberOf(row, 'cache_hits'),
    calls: numberOf(row, 'calls'),
    inputTokens: numberOf(row, 'input_tokens'),
    outputTokens: numberOf(row, 'output_tokens'),
    ...(cost !== null && { cost }),
  }
}

/** The sum is cheap, because an account has few files and an index contains their sizes. */
export const fileBytesOf = (account: Value | Sql) =>
  sql`(select coalesce(sum(bytes), 0) from files where account = ${account})`

/** The stored sums may be wrong for a while, and even negative. */
export function readQuotaUse(row: Row): QuotaUse {
  const reserved = numberOf(row, 'reserved')
  return {
    openJobs: Math.max(0, numberOf(row, 'open_jobs')),
    storedBytes: Math.max(0, numberOf(row, 'stored_bytes')) + numberOf(row, 'file_bytes'),
    ...(reserved > 0 && { reserved }),
  }
}

export const costCapOperations = ({ idsOf, isOneOf, job, joinJob }: Dialect) => ({
  areOverBudget: read(function* (jobIds: readonly string[]): Steps<string[]> {
    const rows = yield sql`
      select one.id from (${idsOf(jobIds)}) one ${joinJob(sql`one.id`)}
      where ${job.queued}.turn is not null and ${job.queued}.route ${isOneOf(BUDGET_QUEUES)}`
    return rows.map((row) => textOf(row, 'id'))
  }),
})
