/**
 * Faults that happen together, as in reality: one leaves something half done, and the next interrupts its recovery. Faults
 * at random times within a minute seldom do that.
 */
import type { Action, Step, UpstreamFault } from './plan.ts'
import type { SeededRandom } from './random.ts'

const OUTAGES: readonly UpstreamFault[] = ['503', '500', 'refused', 'hang']
/** A model server is retried within this time after its recovery. */
const TRIED_AGAIN_MS = 6000

export interface IncidentOptions {
  readonly random: SeededRandom
  /** The latest time at which it starts. */
  readonly mostMs: number
  readonly create: () => Step
}

export function incident(options: IncidentOptions): Action[] {
  return options.random.chance(0.3) ? stalledReceivers(options) : outage(options)
}

/** Nodes stop while receivers are still stalling. */
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
    // A caller or an operator cancels just when the first jobs are called again.
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
