/** The admin API's responses on usage and caps. */

export interface UsageSums {
  /** Finished jobs, including failed ones. */
  readonly jobs: number
  readonly failed_jobs: number
  /** Jobs that a cached response answered. */
  readonly cache_hits: number
  /** Calls to model servers. */
  readonly calls: number
  readonly input_tokens: number
  readonly output_tokens: number
}

export interface UsageRow extends UsageSums {
  readonly account: string
  /** For example `2026-11`, in UTC. */
  readonly month: string
  readonly model: string
}

export interface UsageList {
  /** Newest month first, then by account and model. */
  readonly usage: readonly UsageRow[]
  readonly more: boolean
  /** Pass this as `after` to get the next page. */
  readonly next: string | null
}

/** The cap or quota of an account: a number, `none` for no limit, or `tier` for the limit of the tier. */
export type Cap = number | 'none' | 'tier'

export interface Caps {
  readonly max_monthly_jobs: Cap
  readonly max_monthly_tokens: Cap
  /** Queued and running jobs. */
  readonly max_open_jobs: Cap
  readonly max_stored_bytes: Cap
}
