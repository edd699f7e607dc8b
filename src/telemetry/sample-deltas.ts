/** Converts the increases of the counters to the deltas of a metric sample. */
import type { MetricSample, PercentilesView } from '../admin/metric-sample.ts'
import type { Labels } from './counters.ts'

export type SampleDeltas = Pick<
  MetricSample,
  'jobs' | 'wait_ms' | 'run_ms' | 'tokens' | 'cache_hits' | 'calls' | 'callbacks'
>

type Increases = readonly { readonly labels: Labels; readonly amount: number }[]

export interface Deltas {
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
    // A call that was aborted on this side shows nothing about the upstream.
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

/** Two sums for each value of one label. */
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
