/** Percentiles of durations, accurate to 1%, computed by Node's native histogram. */
import { createHistogram } from 'node:perf_hooks'
import type { PercentilesView } from '../admin/metric-sample.ts'

/** The histogram counts whole numbers, so durations are recorded in tenths of a millisecond. */
const UNITS_PER_MS = 10
/** About 28 hours. A longer duration counts as this. */
const LONGEST_UNITS = 1_000_000_000

export class Percentiles {
  readonly #histogram = createHistogram({ lowest: 1, highest: LONGEST_UNITS, figures: 2 })

  add(ms: number): void {
    this.#histogram.record(Math.min(Math.max(1, Math.round(ms * UNITS_PER_MS)), LONGEST_UNITS))
  }

  /** The percentiles of what was added since the last call. */
  take(): PercentilesView {
    if (this.#histogram.count === 0) return NOTHING
    const view = { p50: this.#percentile(50), p95: this.#percentile(95), p99: this.#percentile(99) }
    this.#histogram.reset()
    return view
  }

  /** Three digits, the precision of the histogram. */
  #percentile(percentile: number): number {
    return Number((this.#histogram.percentile(percentile) / UNITS_PER_MS).toPrecision(3))
  }
}

const NOTHING: PercentilesView = { p50: null, p95: null, p99: null }
