/** The outcomes of jobs that are settled without a run, for both stores: from a cached response, or because they are overdue. */
import { readEarlierUsage, receiptOfEarlier, usageOfEarlier } from '../job/earlier-usage.ts'
import type { Usage } from '../job/job.ts'
import { NO_USAGE } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { PastPatience } from './store.ts'

/** The usage and the receipt of a job that a cached response completed. */
export const CACHE_HIT_USAGE: Usage = { ...NO_USAGE, cache_hit: true }
/** The usage if the model has a price. */
export const FREE_CACHE_HIT_USAGE: Usage = { ...CACHE_HIT_USAGE, cost: 0 }
/** The receipt of a job without a model call, in the form that `queue/outcome-and-receipt.ts` writes. */
export const CACHE_HIT_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })

/**
 * Returns the ID before which queued jobs are overdue that have waited since they were created. (Jobs that store when their wait
 * began are judged by that.) No job has a smaller ID if the outage began too recently.
 */
export function createdBefore({ unavailableSinceMs, patienceMs }: PastPatience, nowMs: number): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}

/** The usage and receipt of the job, in the form that `queue/outcome-and-receipt.ts` writes. */
export function overdueResult(
  earlierJson: string | null,
  isPriced: boolean,
): { usage: Usage; receiptJson: string } {
  const earlier = { ...(isPriced && { cost: 0 }), ...readEarlierUsage(earlierJson) }
  return { usage: usageOfEarlier(earlier), receiptJson: JSON.stringify(receiptOfEarlier(earlier)) }
}
