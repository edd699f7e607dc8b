/** Percentiles of times, to within a tenth: a count for each eighth of a doubling, which costs a logarithm a time. */
import type { PercentilesView } from '../admin/metric-sample.ts'

const LEAST_MS = 0.1
const STEPS_A_DOUBLING = 8
/** The last step is at 28 minutes times a thousand: what is longer counts as that. */
const STEPS = 272

export class Percentiles {
  readonly #counts = new Uint32Array(STEPS)
  #total = 0

  add(ms: number): void {
    const step = Math.round(STEPS_A_DOUBLING * Math.log2(ms / LEAST_MS))
    const at = step > 0 ? Math.min(step, STEPS - 1) : 0
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#total += 1
  }

  /** Of what was added since the last call. */
  take(): PercentilesView {
    if (this.#total === 0) return NOTHING
    const view = { p50: this.#at(0.5), p95: this.#at(0.95), p99: this.#at(0.99) }
    this.#counts.fill(0)
    this.#total = 0
    return view
  }

  #at(part: number): number {
    const rank = Math.ceil(part * this.#total)
    let seen = 0
    for (let step = 0; step < STEPS; step++) {
      seen += this.#counts[step] ?? 0
      if (seen >= rank) return rounded(LEAST_MS * 2 ** (step / STEPS_A_DOUBLING))
    }
    return 0
  }
}

const NOTHING: PercentilesView = { p50: null, p95: null, p99: null }

/** Three digits: more would say what is not known. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(3))
}
