/** Rows of summed usage, and of what accounts have open and stored, which every store reads alike. */
import { numberOf, type Row, textOf } from './rows.ts'
import type { QuotaUse, UsageRecord } from './usage-store.ts'

export const USAGE_COLUMNS =
  'account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens'

export function readUsage(row: Row): UsageRecord {
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
  }
}

/** Of a row with `open_jobs` and `stored_bytes`. Sums that are being corrected may be below zero for a moment. */
export function readQuotaUse(row: Row | undefined): QuotaUse {
  if (row === undefined) return { openJobs: 0, storedBytes: 0 }
  return {
    openJobs: Math.max(0, numberOf(row, 'open_jobs')),
    storedBytes: Math.max(0, numberOf(row, 'stored_bytes')),
  }
}
