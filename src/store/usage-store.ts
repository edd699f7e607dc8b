/**
 * The usage of accounts, summed by account, month and model, and what accounts have open and stored. The transaction that
 * settles a job adds its usage, so every job counts exactly once, whatever crashes. Usage outlives the jobs.
 */

export interface UsageStore {
  /** Returns usage, newest month first, then by account and model. */
  listUsage(search: UsageSearch): Promise<UsageRecord[]>

  /** Returns what counts against the account's caps in that month. The cost is bounded, however many jobs are queued. */
  used(account: string, month: string): Promise<Used>

  /**
   * Returns what the account has open and stored now. Every write that accepts, settles, deletes or expires jobs updates these
   * sums in its transaction, so the cost does not grow with the number of jobs.
   */
  quotaUse(account: string): Promise<QuotaUse>
}

export interface QuotaUse {
  /** Jobs that are queued or assigned. */
  readonly openJobs: number
  /** The bytes of all stored jobs, counted as in `stored-bytes.ts`, plus those of all files. */
  readonly storedBytes: number
  /** The maximum cost of the open jobs (`Job.reserved`), in millionths of the currency; absent if 0. */
  readonly reserved?: number
}

export interface UsageSearch {
  readonly account?: string
  /** A month in the form of `job/month.ts`. */
  readonly month?: string
  /** The last row of the previous page. */
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
  /** Jobs that the response cache completed, at no cost. */
  readonly cacheHits: number
  /** Calls to model servers, including failed ones. */
  readonly calls: number
  /** Sums over all calls, as the model servers counted them. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** In millionths of the currency; absent if no job's model had a price. */
  readonly cost?: number
}

export interface Used {
  /** Jobs that finished in that month. */
  readonly jobs: number
  /** Jobs that are queued or running, up to `MAX_OPEN_COUNTED`. */
  readonly openJobs: number
  /** Input and output tokens of the finished jobs. */
  readonly tokens: number
}

export const MAX_OPEN_COUNTED = 100_000
