/** Measures claims from a long queue, one job at a time and many at a time, in the same way for both stores and for a peer. */
import { type Latencies, summarise } from '../load/percentiles.ts'

interface Claiming {
  claims(times: number, jobs: number): Promise<number[]>
}

interface Times {
  readonly one: number
  readonly many: number
}

const TIMES: Times = { one: 400, many: 80 }
export const MANY = 256
/** Compilation and the first reads of a side's pages happen during these claims, which are not measured. */
const WARM_UP = { one: 100, many: 30 }
export const JOBS_OF_A_ROUND = TIMES.one + TIMES.many * MANY

export interface Measured {
  readonly one: Latencies
  readonly many: Latencies
  readonly drainedPerSecond: number
}

export async function warmUpClaims(store: Claiming): Promise<void> {
  await store.claims(WARM_UP.one, 1)
  await store.claims(WARM_UP.many, MANY)
}

export async function claimAll(store: Claiming, times = TIMES): Promise<Measured> {
  const one = await store.claims(times.one, 1)
  const startedMs = performance.now()
  const many = await store.claims(times.many, MANY)
  const drainedPerSecond = (times.many * MANY * 1000) / (performance.now() - startedMs)
  return { one: summarise(one), many: summarise(many), drainedPerSecond }
}

export const FIGURES: readonly { readonly name: string; readonly of: (measured: Measured) => number }[] = [
  { name: 'claim of 1, p50 ms', of: ({ one }) => one.p50 },
  { name: 'claim of 1, p99 ms', of: ({ one }) => one.p99 },
  { name: `claim of ${MANY}, p50 ms`, of: ({ many }) => many.p50 },
  { name: `claim of ${MANY}, p99 ms`, of: ({ many }) => many.p99 },
  { name: 'cost of a drained job, µs', of: ({ drainedPerSecond }) => 1e6 / drainedPerSecond },
]
