/** Reads rows of usage and of quotas, for both stores. */
import { numberOf, numberOrNull, type Row, textOf } from './rows.ts'
import { type Sql, sql, type Value } from './sql.ts'
import type { QuotaUse, UsageRecord } from './usage-store.ts'

export const USAGE_COLUMNS =
  'account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens, cost'

export function readUsage(row: Row): UsageRecord {
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

/** This is cheap: an account has few files, and an index contains their sizes. */
export const fileBytesOf = (account: Value | Sql) =>
  sql`(select coalesce(sum(bytes), 0) from files where account = ${account})`

/** Reads `open_jobs`, `stored_bytes` of jobs, `reserved` and `file_bytes`. Sums may be negative while they are corrected. */
export function readQuotaUse(row: Row): QuotaUse {
  const reserved = numberOf(row, 'reserved')
  return {
    openJobs: Math.max(0, numberOf(row, 'open_jobs')),
    storedBytes: Math.max(0, numberOf(row, 'stored_bytes')) + numberOf(row, 'file_bytes'),
    ...(reserved > 0 && { reserved }),
  }
}
