/**
 * Counts events that happen with every job, in counters, histograms and percentiles, and converts the increases to metric
 * samples. prom-client collects and formats the values, but does not count: it would hash and copy the labels at each
 * observation, which took a twentieth of a job's CPU time.
 */

import { createHistogram } from 'node:perf_hooks'
import type { Metric, MetricObject, Registry } from 'prom-client'
import type { MetricSample, Percentiles as PercentilesView } from '../admin/overview.ts'

export type Labels = Readonly<Record<string, string>>

interface Value {
  readonly labels: Labels
  readonly value: number
  readonly metricName?: string
}

/** A node in the tree of label values has a branch for each value of the next label or, after the last label, the entry. */
interface Branch<Entry> {
  readonly next: Map<string, Branch<Entry>>
  entry: Entry | null
}

function newBranch<Entry>(): Branch<Entry> {
  return { next: new Map(), entry: null }
}

abstract class LabelledMetric<Entry> {
  readonly name: string
  readonly help: string
  readonly #labelNames: readonly string[]
  /** The entries form a tree, because the key of a flat map would be a new string at each observation. */
  #root = newBranch<Entry>()
  #entries: { readonly labels: Labels; readonly entry: Entry }[] = []
  protected abstract readonly type: 'counter' | 'histogram'

  constructor(registry: Registry, name: string, help: string, labelNames: readonly string[]) {
    this.name = name
    this.help = help
    this.#labelNames = labelNames
    // The registry uses only the name and `get` of a metric.
    registry.registerMetric(this as unknown as Metric)
  }

  /** The registry calls this at each scrape. */
  async get(): Promise<MetricObject> {
    const values = this.#entries.flatMap(({ labels, entry }) => this.valuesOf(labels, entry))
    const { name, help, type } = this
    return { name, help, type, values, aggregator: 'sum' } as unknown as MetricObject
  }

  protected get entries(): readonly { readonly labels: Labels; readonly entry: Entry }[] {
    return this.#entries
  }

  /** The registry calls this when it is emptied. */
  reset(): void {
    this.#root = newBranch()
    this.#entries = []
  }

  protected abstract make(): Entry
  protected abstract valuesOf(labels: Labels, entry: Entry): Value[]

  protected entryOf(values: readonly string[]): Entry {
    let branch = this.#root
    for (const value of values) {
      let next = branch.next.get(value)
      if (next === undefined) {
        next = newBranch()
        branch.next.set(value, next)
      }
      branch = next
    }
    branch.entry ??= this.#newEntry(values)
    return branch.entry
  }

  #newEntry(values: readonly string[]): Entry {
    const labels = Object.fromEntries(this.#labelNames.map((name, index) => [name, values[index] ?? '']))
    const entry = this.make()
    this.#entries.push({ labels, entry })
    return entry
  }
}

interface Total {
  total: number
  /** `takeIncreases` has already returned this part of the total. */
  taken: number
}

export class MetricCounter extends LabelledMetric<Total> {
  protected readonly type = 'counter'

  add(amount: number, ...labels: string[]): void {
    this.entryOf(labels).total += amount
  }

  /** Returns the increases since the last call, so only one caller may use this. */
  takeIncreases(): { readonly labels: Labels; readonly amount: number }[] {
    return this.entries.flatMap(({ labels, entry }) => {
      const amount = entry.total - entry.taken
      entry.taken = entry.total
      return amount > 0 ? [{ labels, amount }] : []
    })
  }

  protected make(): Total {
    return { total: 0, taken: 0 }
  }

  protected valuesOf(labels: Labels, { total }: Total): Value[] {
    return [{ labels, value: total }]
  }
}

interface Distribution {
  /** Each bound has a count. The last count is for values above all bounds. */
  readonly counts: number[]
  sum: number
}

export class MetricHistogram extends LabelledMetric<Distribution> {
  protected readonly type = 'histogram'
  readonly #bounds: readonly number[]

  constructor(
    registry: Registry,
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames: readonly string[],
  ) {
    super(registry, name, help, labelNames)
    this.#bounds = bounds
  }

  observe(value: number, ...labels: string[]): void {
    const distribution = this.entryOf(labels)
    let at = 0
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? 0)) at += 1
    distribution.counts[at] = (distribution.counts[at] ?? 0) + 1
    distribution.sum += value
  }

  protected make(): Distribution {
    return { counts: Array.from({ length: this.#bounds.length + 1 }, () => 0), sum: 0 }
  }

  /** Prometheus requires that each bucket also counts the smaller values. */
  protected valuesOf(labels: Labels, { counts, sum }: Distribution): Value[] {
    let total = 0
    const buckets = counts.map((count, index) => {
      total += count
      const le = index < this.#bounds.length ? String(this.#bounds[index]) : '+Inf'
      return { labels: { le, ...labels }, value: total, metricName: `${this.name}_bucket` }
    })
    return [
      ...buckets,
      { labels, value: sum, metricName: `${this.name}_sum` },
      { labels, value: total, metricName: `${this.name}_count` },
    ]
  }
}

/** Node's histogram accepts only whole numbers, so durations are recorded in tenths of a millisecond. */
const UNITS_PER_MS = 10
/** A longer duration is recorded as this one, about 28 hours. */
const LONGEST_UNITS = 1_000_000_000

/** Computes percentiles of durations, accurate to 1%, with Node's native histogram. */
export class Percentiles {
  readonly #histogram = createHistogram({ lowest: 1, highest: LONGEST_UNITS, figures: 2 })

  add(ms: number): void {
    this.#histogram.record(Math.min(Math.max(1, Math.round(ms * UNITS_PER_MS)), LONGEST_UNITS))
  }

  /** Returns the percentiles of the durations that were added since the last call. */
  take(): PercentilesView {
    if (this.#histogram.count === 0) return NOTHING
    const view = { p50: this.#percentile(50), p95: this.#percentile(95), p99: this.#percentile(99) }
    this.#histogram.reset()
    return view
  }

  /** Rounds to three digits, because the histogram is not more precise. */
  #percentile(percentile: number): number {
    return Number((this.#histogram.percentile(percentile) / UNITS_PER_MS).toPrecision(3))
  }
}

const NOTHING: PercentilesView = { p50: null, p95: null, p99: null }

export type SampleDeltas = Pick<
  MetricSample,
  'jobs' | 'wait_ms' | 'run_ms' | 'tokens' | 'cache_hits' | 'calls' | 'callbacks'
>

type Increases = readonly { readonly labels: Labels; readonly amount: number }[]

interface Deltas {
  readonly jobs: Increases
  readonly tokens: Increases
  readonly cacheHits: Increases
  readonly calls: Increases
  readonly attempts: Increases
  readonly callbacks: Increases
  readonly waits: PercentilesView
  readonly runs: PercentilesView
}

export function sampleDeltas({
  jobs,
  tokens,
  cacheHits,
  calls,
  attempts,
  callbacks,
  waits,
  runs,
}: Deltas): SampleDeltas {
  return {
    jobs: Object.fromEntries(sums(jobs, ({ outcome }) => outcome)),
    wait_ms: waits,
    run_ms: runs,
    tokens: pairs(tokens, 'model', ['input', 'output'], ({ direction }) => direction),
    cache_hits: total(cacheHits),
    // An aborted call does not show whether the upstream works.
    calls: pairs(calls, 'upstream', ['ok', 'trouble'], ({ result }) =>
      result === 'aborted' ? undefined : result?.startsWith('trouble') ? 'trouble' : 'ok',
    ),
    callbacks: {
      delivered: total(callbacks.filter(({ labels }) => labels.outcome === 'delivered')),
      failed_attempts: total(attempts.filter(({ labels }) => labels.result !== 'delivered')),
      failed: total(callbacks.filter(({ labels }) => labels.outcome === 'failed')),
    },
  }
}

function total(increases: Increases): number {
  return increases.reduce((sum, { amount }) => sum + amount, 0)
}

function sums(increases: Increases, nameOf: (labels: Labels) => string | undefined): Map<string, number> {
  const found = new Map<string, number>()
  for (const { labels, amount } of increases) {
    const name = nameOf(labels)
    if (name !== undefined) found.set(name, (found.get(name) ?? 0) + amount)
  }
  return found
}

function pairs<First extends string, Second extends string>(
  increases: Increases,
  label: string,
  [first, second]: readonly [First, Second],
  nameOf: (labels: Labels) => string | undefined,
): Record<string, Record<First | Second, number>> {
  const names = new Set(increases.map(({ labels }) => labels[label] ?? ''))
  const entries = [...names].map((name) => {
    const own = sums(
      increases.filter(({ labels }) => labels[label] === name),
      nameOf,
    )
    return [name, { [first]: own.get(first) ?? 0, [second]: own.get(second) ?? 0 }] as const
  })
  return Object.fromEntries(entries) as Record<string, Record<First | Second, number>>
}
