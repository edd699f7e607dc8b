/** Rows of summed usage, and of what accounts have open and stored, which every store reads alike. */
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

/** An account has few files, and an index has their sizes. */
export const fileBytesOf = (account: Value | Sql) =>
  sql`(select coalesce(sum(bytes), 0) from files where account = ${account})`

/**
 * Of a row with `open_jobs`, `stored_bytes` of jobs, `reserved`, and `file_bytes`. Sums that are being corrected may be below zero for a moment.
 */
export function readQuotaUse(row: Row): QuotaUse {
  const reserved = numberOf(row, 'reserved')
  return {
    openJobs: Math.max(0, numberOf(row, 'open_jobs')),
    storedBytes: Math.max(0, numberOf(row, 'stored_bytes')) + numberOf(row, 'file_bytes'),
    ...(reserved > 0 && { reserved }),
  }
}
