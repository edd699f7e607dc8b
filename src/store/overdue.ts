/** The outcome of a job that `failOverdue` fails, which every store makes alike. */
import { readEarlierUsage, usageOfEarlier } from '../job/earlier-usage.ts'
import type { Usage } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { PastPatience } from './store.ts'

/** A job without times of its own is overdue if it was created before this ID; none is if the outage is too recent. */
export function createdBefore({ unavailableSinceMs, patienceMs }: PastPatience, nowMs: number): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}

/** Its usage and receipt, as `queue/execution-result.ts` writes receipts. */
export function overdueResult(
  earlierJson: string | null,
  isPriced: boolean,
): { usage: Usage; receiptJson: string } {
  const earlier = { ...(isPriced && { cost: 0 }), ...readEarlierUsage(earlierJson) }
  const receiptJson = JSON.stringify({ form: 'text', calls: earlier.records })
  return { usage: usageOfEarlier(earlier), receiptJson }
}
