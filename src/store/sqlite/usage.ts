/** The usage of accounts in SQLite. Settling adds to it (`usage-sums.ts`). */
import { numberOf } from '../rows.ts'
import { readQuotaUse, readUsage, USAGE_COLUMNS } from '../usage-rows.ts'
import {
  MAX_OPEN_COUNTED,
  type QuotaUse,
  type UsageRecord,
  type UsageSearch,
  type Used,
} from '../usage-store.ts'
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

export const usageOperations = {
  listUsage: read((file: OpenFile, { account, month, after, limit }: UsageSearch): UsageRecord[] => {
    const key = [after?.month ?? null, after?.account ?? '', after?.model ?? ''] as const
    return file
      .prepare(LIST)
      .all(account ?? null, month ?? null, ...key, limit)
      .map(readUsage)
  }),

  used: read((file: OpenFile, account: string, month: string): Used => {
    const sums = file.prepare(USED).get(account, month) ?? {}
    const open = file.prepare(OPEN).get(account) ?? {}
    return {
      jobs: numberOf(sums, 'jobs'),
      openJobs: numberOf(open, 'open'),
      tokens: numberOf(sums, 'tokens'),
    }
  }),

  quotaUse: read(
    (file: OpenFile, account: string): QuotaUse => readQuotaUse(file.prepare(QUOTA_USE).get(account)),
  ),
}

const LIST = `
  select ${USAGE_COLUMNS} from usage
  where (?1 is null or account = ?1) and (?2 is null or month = ?2)
    and (?3 is null or month < ?3 or (month = ?3 and (account, model) > (?4, ?5)))
  order by month desc, account, model limit ?6`
const QUOTA_USE = 'select open_jobs, stored_bytes from quota_sums where account = ?'
const USED = `
  select coalesce(sum(jobs), 0) as jobs, total(input_tokens + output_tokens) as tokens
  from usage where account = ? and month = ?`
const OPEN = `
  select count(*) as open from (
    select 1 from jobs indexed by jobs_waiting_by_account where turn is not null and account = ?1
    union all select 1 from jobs indexed by jobs_held where node is not null and account = ?1
    limit ${MAX_OPEN_COUNTED})`
