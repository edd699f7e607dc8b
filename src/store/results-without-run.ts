/**
 * The outcomes of jobs that are settled without a run, because of a cached response or because they are overdue: for both
 * stores.
 */
import { readEarlierUsage, receiptOfEarlier, usageOfEarlier } from '../job/earlier-usage.ts'
import type { Usage } from '../job/job.ts'
import { NO_USAGE } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { PastPatience } from './store.ts'

/** The usage of a job that a cached response completed. */
export const CACHE_HIT_USAGE: Usage = { ...NO_USAGE, cache_hit: true }
/** `CACHE_HIT_USAGE` of a job whose model has a price. */
export const FREE_CACHE_HIT_USAGE: Usage = { ...CACHE_HIT_USAGE, cost: 0 }
/** The receipt of a job that a cached response completed, in the form that `queue/execution-result.ts` writes. */
export const CACHE_HIT_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })

/**
 * Returns an ID: queued jobs with lower IDs that have waited since their creation are overdue. If the outage began too
 * recently, no job has a lower ID. (If a job stores when its wait began, that decides instead.)
 */
export function createdBefore({ unavailableSinceMs, patienceMs }: PastPatience, nowMs: number): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}

/** The usage and receipt of an overdue job, in the form that `queue/execution-result.ts` writes. */
export function overdueResult(
  earlierJson: string | null,
  isPriced: boolean,
): { usage: Usage; receiptJson: string } {
  const earlier = { ...(isPriced && { cost: 0 }), ...readEarlierUsage(earlierJson) }
  return { usage: usageOfEarlier(earlier), receiptJson: JSON.stringify(receiptOfEarlier(earlier)) }
}
