/** The outcome of an overdue job, for `failOverdue` of both stores. */
import { readEarlierUsage, usageOfEarlier } from '../job/earlier-usage.ts'
import type { Usage } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { PastPatience } from './store.ts'

/** Jobs created before this ID are overdue if no wait of their own is stored. If the outage is too recent, no job is. */
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
  const receiptJson = JSON.stringify({ form: 'text', calls: earlier.records })
  return { usage: usageOfEarlier(earlier), receiptJson }
}
