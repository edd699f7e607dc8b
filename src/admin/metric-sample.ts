/** What happened on a node in a short while, as the dashboard draws it. Times are Unix seconds. */

export interface MetricSample {
  readonly at: number
  /** What the counts below are for: the time since the point before. */
  readonly seconds: number
  /** Jobs that ended, by outcome: `completed`, or the failure's code. */
  readonly jobs: Readonly<Record<string, number>>
  /** Of the whole database, as last seen; null while it does not say. */
  readonly waiting: number | null
  readonly assigned: number | null
  readonly oldest_age_seconds: number | null
  /** In hand on this node. */
  readonly running: number
  readonly wait_ms: PercentilesView
  readonly run_ms: PercentilesView
  readonly tokens: Readonly<Record<string, { readonly input: number; readonly output: number }>>
  readonly cache_hits: number
  readonly calls: Readonly<Record<string, { readonly ok: number; readonly trouble: number }>>
  readonly callbacks: {
    readonly delivered: number
    readonly failed_attempts: number
    readonly failed: number
  }
  /** Of the whole database; null while it does not say. */
  readonly callbacks_owed: number | null
}

/** To within a tenth; null where nothing happened. */
export interface PercentilesView {
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}
