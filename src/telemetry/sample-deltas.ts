/** What the counts of the metrics have grown by, put together as a point has it. */
import type { MetricSample, PercentilesView } from '../admin/metric-sample.ts'
import type { Labels } from './counters.ts'

export type SampleDeltas = Pick<
  MetricSample,
  'jobs' | 'wait_ms' | 'run_ms' | 'tokens' | 'cache_hits' | 'calls' | 'callbacks'
>

type Growth = readonly { readonly labels: Labels; readonly amount: number }[]

export interface Grown {
  readonly jobs: Growth
  readonly tokens: Growth
  readonly cacheHits: Growth
  readonly calls: Growth
  readonly attempts: Growth
  readonly callbacks: Growth
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
}: Grown): SampleDeltas {
  return {
    jobs: Object.fromEntries(sums(jobs, ({ outcome }) => outcome)),
    wait_ms: waits,
    run_ms: runs,
    tokens: pairs(tokens, 'model', ['input', 'output'], ({ direction }) => direction),
    cache_hits: total(cacheHits),
    // A call that we ended ourselves says nothing of the upstream.
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

function total(growth: Growth): number {
  return growth.reduce((sum, { amount }) => sum + amount, 0)
}

function sums(growth: Growth, nameOf: (labels: Labels) => string | undefined): Map<string, number> {
  const found = new Map<string, number>()
  for (const { labels, amount } of growth) {
    const name = nameOf(labels)
    if (name !== undefined) found.set(name, (found.get(name) ?? 0) + amount)
  }
  return found
}

/** By one label, and for each of its values two sums. */
function pairs<First extends string, Second extends string>(
  growth: Growth,
  label: string,
  [first, second]: readonly [First, Second],
  nameOf: (labels: Labels) => string | undefined,
): Record<string, Record<First | Second, number>> {
  const names = new Set(growth.map(({ labels }) => labels[label] ?? ''))
  const entries = [...names].map((name) => {
    const own = sums(
      growth.filter(({ labels }) => labels[label] === name),
      nameOf,
    )
    return [name, { [first]: own.get(first) ?? 0, [second]: own.get(second) ?? 0 }] as const
  })
  return Object.fromEntries(entries) as Record<string, Record<First | Second, number>>
}
