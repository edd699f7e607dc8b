/** Usage as returned by the API, the admin API and `--json`. */
import type { UsageKey, UsageRecord } from '../store/usage-store.ts'

export type UsageSums = Omit<UsageRecord, keyof UsageKey>

export function usageView({ jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens }: UsageSums) {
  return {
    jobs,
    failed_jobs: failedJobs,
    cache_hits: cacheHits,
    calls,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
  }
}

export function sumOf(records: readonly UsageSums[]): UsageSums {
  const total = (read: (sums: UsageSums) => number) => records.reduce((sum, record) => sum + read(record), 0)
  return {
    jobs: total(({ jobs }) => jobs),
    failedJobs: total(({ failedJobs }) => failedJobs),
    cacheHits: total(({ cacheHits }) => cacheHits),
    calls: total(({ calls }) => calls),
    inputTokens: total(({ inputTokens }) => inputTokens),
    outputTokens: total(({ outputTokens }) => outputTokens),
  }
}

/** The totals with their account, month and model. */
export function usageRecordView(record: UsageRecord) {
  const { account, month, model } = record
  return { account, month, model, ...usageView(record) }
}
