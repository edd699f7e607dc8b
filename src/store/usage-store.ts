/**
 * The usage of accounts, summed by account, month and model, and what they have open and stored. It is written by the
 * transaction that settles a job, so that every job counts exactly once, whatever crashes. Usage outlives the jobs.
 */

export interface UsageStore {
  /** Newest month first, then by account and model. */
  listUsage(search: UsageSearch): Promise<UsageRecord[]>

  /** What counts against the account's caps in that month. Its cost is bounded regardless of the number of queued jobs. */
  used(account: string, month: string): Promise<Used>

  /**
   * What the account has open and stored now. Every write that accepts, settles, deletes or expires jobs changes these sums in
   * its own transaction, so the cost does not grow with the number of jobs.
   */
  quotaUse(account: string): Promise<QuotaUse>
}

export interface QuotaUse {
  /** Jobs that are queued or assigned. */
  readonly openJobs: number
  /** As `stored-bytes.ts` counts them, of all jobs that are stored, and the bytes of all files. */
  readonly storedBytes: number
  /** What the open jobs may cost (`Job.reserved`), in millionths of the currency; absent if nothing. */
  readonly reserved?: number
}

export interface UsageSearch {
  readonly account?: string
  /** As `job/month.ts` writes it. */
  readonly month?: string
  /** The last of the previous page. */
  readonly after?: UsageKey
  readonly limit: number
}

export interface UsageKey {
  readonly account: string
  readonly month: string
  /** The public model name of the requests. */
  readonly model: string
}

export interface UsageRecord extends UsageKey {
  /** Jobs that finished in that month, including failed ones. */
  readonly jobs: number
  readonly failedJobs: number
  /** Jobs answered from the response cache: they cost nothing. */
  readonly cacheHits: number
  /** Calls to model servers, including failed ones. */
  readonly calls: number
  /** As the model servers counted them, over all calls. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** In millionths of the currency; absent if none of the jobs was of a model with a price. */
  readonly cost?: number
}

export interface Used {
  /** Jobs that finished in that month. */
  readonly jobs: number
  /** Jobs that wait or run; counted up to `MOST_OPEN_COUNTED`. */
  readonly openJobs: number
  /** Input and output tokens of the finished jobs. */
  readonly tokens: number
}

export const MAX_OPEN_COUNTED = 100_000
