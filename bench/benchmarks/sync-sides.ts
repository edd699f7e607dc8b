/** Defines the sides and conditions of the single-create benchmark, and which sides are compared. */
import type { Run } from '../harness/load-run.ts'
import { ratios, type Spread } from '../harness/rounds.ts'
import type { SideName } from '../harness/sides.ts'

export interface Condition {
  readonly delayMs: number
  readonly connections: number
  readonly peers: boolean
}

export type SyncSide = 'parley' | 'parley without key' | 'bare' | 'portkey' | 'bullmq'

export interface SyncSideShape {
  readonly title: string
  readonly kind: SideName
  readonly peer: boolean
}

export const SIDES: Readonly<Record<SyncSide, SyncSideShape>> = {
  parley: { title: 'Parley', kind: 'parley', peer: false },
  'parley without key': { title: 'Parley without keys', kind: 'parley', peer: false },
  bare: { title: 'bare proxy, not durable', kind: 'bare', peer: false },
  portkey: { title: 'Portkey, not durable', kind: 'portkey', peer: true },
  bullmq: { title: 'BullMQ shell', kind: 'bullmq', peer: true },
}

export interface Measured {
  readonly condition: Condition
  readonly runs: ReadonlyMap<SyncSide, readonly Run[]>
}

/**
 * Compares a side of Parley with another side under one condition. The targets are the least rate and the greatest CPU time, as
 * ratios.
 */
export interface Comparison {
  readonly ours: SyncSide
  readonly theirs: SyncSide
  readonly rate: Spread
  readonly cpu: Spread
  readonly p99: Spread
  readonly rateTarget: number | null
  readonly cpuTarget: number | null
}

const PAIRS: readonly (readonly [ours: SyncSide, theirs: SyncSide])[] = [
  ['parley', 'bare'],
  ['parley', 'parley without key'],
  ['parley without key', 'bare'],
  ['parley', 'portkey'],
  ['parley', 'bullmq'],
]

export function nameOf({ delayMs, connections }: Condition): string {
  return `${delayMs} ms, ${connections} connection${connections === 1 ? '' : 's'}`
}

export function comparisonsOf({ condition, runs }: Measured): Comparison[] {
  return PAIRS.flatMap(([ours, theirs]) => {
    const [our, their] = [runs.get(ours), runs.get(theirs)]
    if (our === undefined || their === undefined) return []
    const over = (of: (run: Run) => number) => ratios(our, their, of)
    return {
      ours,
      theirs,
      rate: over(({ result }) => result.perSecond),
      cpu: over(({ sideCpuUs }) => sideCpuUs),
      p99: over(({ result }) => result.latencies.p99),
      ...targetsOf(condition, ours, theirs),
    }
  })
}

function targetsOf({ delayMs, connections }: Condition, ours: SyncSide, theirs: SyncSide) {
  const none = { rateTarget: null, cpuTarget: null }
  if (delayMs !== 0 || connections === 1 || ours !== 'parley') return none
  switch (theirs) {
    case 'portkey':
      return { rateTarget: 4, cpuTarget: null }
    case 'bullmq':
      return { rateTarget: 5, cpuTarget: null }
    default:
      return none
  }
}
