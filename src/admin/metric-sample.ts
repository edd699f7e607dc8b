/** A metric sample: what happened on a node during a few seconds. The dashboard charts it. Times are Unix seconds. */

export interface MetricSample {
  readonly at: number
  /** The interval that the counts below cover: since the previous sample. */
  readonly seconds: number
  /** Finished jobs, by outcome: `completed`, or the error code. */
  readonly jobs: Readonly<Record<string, number>>
  /** In the whole database, as last read; null while it does not respond. */
  readonly waiting: number | null
  readonly assigned: number | null
  readonly oldest_age_seconds: number | null
  /** Running on this node. */
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
  /** In the whole database; null while it does not respond. */
  readonly callbacks_owed: number | null
}

/** Accurate to 10%; null if nothing was measured. */
export interface PercentilesView {
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}
