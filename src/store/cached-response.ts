/** What is stored of a job that a cached response completed. */
import { NO_USAGE, type Usage } from '../job/job.ts'

export const CACHE_HIT_USAGE: Usage = { ...NO_USAGE, cache_hit: true }
/** The same for a job whose model has a price. */
export const FREE_CACHE_HIT_USAGE: Usage = { ...CACHE_HIT_USAGE, cost: 0 }
/** No call was made. As `queue/execution-result.ts` writes receipts. */
export const CACHE_HIT_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
