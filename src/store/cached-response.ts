/** The usage and the receipt of a job that a cached response completed. */
import { NO_USAGE, type Usage } from '../job/job.ts'

export const CACHE_HIT_USAGE: Usage = { ...NO_USAGE, cache_hit: true }
/** The usage if the model has a price. */
export const FREE_CACHE_HIT_USAGE: Usage = { ...CACHE_HIT_USAGE, cost: 0 }
/** The receipt of a job without a model call, in the form that `queue/outcome-and-receipt.ts` writes. */
export const CACHE_HIT_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
