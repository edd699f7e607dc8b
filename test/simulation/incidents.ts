/**
 * Makes faults that happen together, as in reality: one leaves something half done, and the next interrupts the recovery.
 * Faults at random times seldom coincide like that.
 */
import { type Action, MODELS, POISONS, type Step, type UpstreamFault } from './plan.ts'
import type { SeededRandom } from './random.ts'

const OUTAGES: readonly UpstreamFault[] = ['503', '500', 'refused', 'hang']
/** After its recovery, a model server is tried again within this time. */
const TRIED_AGAIN_MS = 6000

export interface IncidentOptions {
  readonly random: SeededRandom
  readonly mostMs: number
  readonly create: () => Step
}

export function incident(options: IncidentOptions): Action[] {
  return options.random.chance(0.3) ? stalledReceivers(options) : outage(options)
}

/**
 * An account has little quota left. Its creates arrive together and repeat each other, while its jobs end, are cancelled and
 * are deleted.
 */
export function rush({ random, mostMs, create }: IncidentOptions): Action[] {
  const atMs = random.whole(0, mostMs)
  const account = random.whole(0, 2)
  const limits = {
    openJobs: random.pick([3, 10, null]),
    monthlyJobs: random.pick([5, 20, null]),
    monthlyTokens: random.pick([200, 2000, null]),
    storedBytes: random.pick([2000, 20_000, null]),
    monthlyCost: random.pick([300, 3000, null]),
  }
  const actions: Action[] = [{ atMs, kind: 'cap', account, node: random.whole(0, 2), ...limits }]
  for (let made = random.whole(4, 16); made > 0; made--) {
    const step = create()
    if (step.kind !== 'create') continue
    const sentMs = atMs + random.pick([0, 3000, random.whole(0, 12_000)]) + random.whole(0, 120)
    actions.push({ ...step, account, atMs: sentMs })
    if (!random.chance(0.3)) continue
    const key = `rush ${made}`
    const other = random.chance(0.3) ? create() : step
    const again = { ...(other.kind === 'create' ? other : step), key, account, node: random.whole(0, 2) }
    actions.push({ ...step, key, account, atMs: sentMs })
    actions.push({ ...again, atMs: sentMs + random.pick([0, random.whole(0, 5000)]) })
  }
  const own = { node: random.whole(0, 2), isForeign: false }
  for (let made = random.whole(0, 4); made > 0; made--) {
    const [job, laterMs] = [random.whole(0, 999), atMs + random.whole(0, 12_000)]
    if (random.chance(0.5))
      actions.push({ atMs: laterMs, kind: 'delete own', job, ...own, dropCallback: true })
    else actions.push({ atMs: laterMs, kind: 'cancel own', job, ...own, thenDelete: random.chance(0.5) })
  }
  return actions
}

/**
 * Jobs fail at servers which work for others, crash those servers, or kill their nodes. Jobs of other accounts run at the same
 * time, and processes may end for other reasons.
 */
export function poison({ random, mostMs, create }: IncidentOptions): Action[] {
  const [atMs, account, node] = [random.whole(0, mostMs), random.whole(0, 2), random.whole(0, 2)]
  const manner = random.pick([...POISONS, 'crash', 'crash always', 'kill', 'kill', 'kill'] as const)
  const jobs = Array.from({ length: random.whole(1, manner === 'kill' ? 3 : 12) }, (_, index) => ({
    tag: `poison${index}`,
    manner,
    format: manner === 'crash always' ? random.pick(['text', 'schema'] as const) : ('schema' as const),
    model: random.pick(Object.keys(MODELS)),
    size: 10,
    hasCallback: false,
    cacheTtlMs: 300_000,
  }))
  const poisons: Step = { kind: 'create', account, node, jobs, waitMs: null, key: null, leaveMs: null }
  const others = Array.from({ length: random.whole(1, 4) }, create)
  const kills = random.chance(0.4) ? random.whole(1, 4) : 0
  const kill = () => ({ kind: 'kill', node: random.whole(0, 2), ms: random.whole(0, 2000) }) as const
  return [
    { atMs, ...poisons },
    ...others.map((step) => ({ atMs: atMs + random.whole(0, 5000), ...step })),
    ...Array.from({ length: kills }, () => ({ atMs: atMs + random.whole(0, 20_000), ...kill() })),
  ]
}

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
    // Operators cancel jobs whose calls are in progress, just when the model server that had failed is called again.
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
