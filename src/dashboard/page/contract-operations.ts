/** What the admin API answers with where operators count, step in and look back. Times are Unix seconds. */

export interface UsageSums {
  /** Jobs that ended, failed ones included. */
  readonly jobs: number
  readonly failed_jobs: number
  /** Answered by a kept answer. */
  readonly cache_hits: number
  /** Calls to model servers. */
  readonly calls: number
  readonly input_tokens: number
  readonly output_tokens: number
}

export interface UsageRow extends UsageSums {
  readonly account: string
  /** Such as `2026-11`, in UTC. */
  readonly month: string
  readonly model: string
}

export interface UsageList {
  /** Newest month first, then by account and model. */
  readonly usage: readonly UsageRow[]
  readonly more: boolean
  /** What to give as `after` to go on. */
  readonly next: string | null
}

/** Of an account: a number, `none` for no end, or `tier` where its tier says. */
export type Cap = number | 'none' | 'tier'

export interface Caps {
  readonly max_monthly_jobs: Cap
  readonly max_monthly_tokens: Cap
}

export interface AccountDeleted {
  readonly jobs: number
  readonly cancelled: number
}

/** Something that somebody did. */
export interface Act {
  readonly id: string
  readonly at: number
  readonly who: string
  readonly what: string
  readonly account: string | null
  /** The job or key. */
  readonly target: string | null
  readonly details: Readonly<Record<string, unknown>>
  /** Null while it is under way, and for ever where it was cut off. */
  readonly outcome: string | null
}

export interface ActList {
  /** Newest first. */
  readonly acts: readonly Act[]
  readonly more: boolean
  /** What to give as `before` to go on. */
  readonly next: string | null
}
