/** Rows of summed usage, which every store reads alike. */
import { numberOf, type Row, textOf } from './rows.ts'
import type { UsageRecord } from './usage-store.ts'

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
