/**
 * Faults that come together, as they do: what one of them leaves half done, another one meets. Faults at random times of a minute
 * seldom do.
 */
import type { Action, Step, UpstreamFault } from './plan.ts'
import type { SeededRandom } from './random.ts'

const OUTAGES: readonly UpstreamFault[] = ['503', '500', 'refused', 'hang']
/** A model server is retried within so long of its recovery. */
const TRIED_AGAIN_MS = 6000

export interface IncidentOptions {
  readonly random: SeededRandom
  /** When it begins at the latest. */
  readonly mostMs: number
  readonly create: () => Step
}

export function incident(options: IncidentOptions): Action[] {
  return options.random.chance(0.3) ? stalledReceivers(options) : outage(options)
}

/** Nodes stop while receivers keep them waiting. */
function stalledReceivers({ random, mostMs, create }: IncidentOptions): Action[] {
  const atMs = random.whole(0, mostMs)
  const creates = Array.from({ length: random.whole(2, 5) }, create)
  return [
    ...[0, 1, 2].map((account) => ({ atMs, kind: 'receiver', account, fault: 'stall', ms: 20_000 }) as const),
    ...creates.map((step) => ({ atMs: atMs + random.whole(0, 5000), ...step })),
    { atMs: atMs + random.whole(2000, 12_000), kind: 'restart', node: random.whole(0, 2), ms: 1000 },
  ]
}

function outage({ random, mostMs, create }: IncidentOptions): Action[] {
  const atMs = random.whole(0, mostMs)
  const ms = random.whole(4000, 20_000)
  const endMs = atMs + ms
  const [upstream, fault] = [random.whole(0, 1), random.pick(OUTAGES)]
  const actions: Action[] = [{ atMs, kind: 'upstream', upstream, fault, ms }]
  const add = (count: number, leastMs: number, latestMs: number, make: () => Step) => {
    for (let made = 0; made < count; made++)
      actions.push({ atMs: random.whole(leastMs, latestMs), ...make() })
  }
  add(random.whole(2, 6), Math.max(0, atMs - 2000), endMs, create)
  if (random.chance(0.5)) {
    // Somebody loses patience just when the first jobs are called again.
    add(4, endMs, endMs + TRIED_AGAIN_MS, () => ({ kind: 'cancel called', call: random.whole(0, 99) }))
  }
  if (random.chance(0.5)) {
    const node = random.whole(0, 2)
    add(1, atMs, endMs, () => ({ kind: 'kill', node, ms: random.whole(0, 2000) }))
  }
  if (random.chance(0.5)) {
    const slowMs = random.whole(5000, 20_000)
    add(1, Math.max(0, endMs - 3000), endMs, () => ({ kind: 'store', fault: 'slow', ms: slowMs }))
  }
  return actions
}
