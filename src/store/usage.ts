/** The usage of accounts, and what they have open and stored: the SQL of both stores. */
import type { Dialect } from './dialect.ts'
import { numberOf } from './rows.ts'
import { allOf, read, type Steps, sql } from './sql.ts'
import { fileBytesOf, readQuotaUse, readUsage } from './usage-rows.ts'
import {
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
    // The total over all models may exceed an integer of SQLite.
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
