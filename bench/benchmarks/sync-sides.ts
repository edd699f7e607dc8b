/** Who is measured with single creates, under which conditions, and which of them are compared. */
import { availableParallelism } from 'node:os'
import type { Run } from '../harness/load-run.ts'
import { ratios, type Spread } from '../harness/rounds.ts'
import type { SideName } from '../harness/sides.ts'

export interface Condition {
  readonly delayMs: number
  readonly connections: number
  /** Whether Portkey and BullMQ are measured, too. */
  readonly peers: boolean
}

export type SyncSide =
  | 'parley'
  | 'parley without key'
  | 'parley threads'
  | 'bare'
  | 'bare processes'
  | 'portkey'
  | 'bullmq'

/** As many as there are cores; generator and model need some of their time as well, on every side. */
export const CORES = availableParallelism()

export interface SyncSideShape {
  readonly title: string
  readonly kind: SideName
  readonly peer: boolean
  /** Request threads of Parley, or processes of the bare proxy. */
  readonly width: number
}

export const SIDES: Readonly<Record<SyncSide, SyncSideShape>> = {
  parley: { title: 'Parley', kind: 'parley', peer: false, width: 1 },
  'parley threads': { title: `Parley, ${CORES} threads`, kind: 'parley', peer: false, width: CORES },
  'parley without key': { title: 'Parley without keys', kind: 'parley', peer: false, width: 1 },
  bare: { title: 'bare proxy, not durable', kind: 'bare', peer: false, width: 1 },
  'bare processes': { title: `bare proxy, ${CORES} processes`, kind: 'bare', peer: false, width: CORES },
  portkey: { title: 'Portkey, not durable', kind: 'portkey', peer: true, width: 1 },
  bullmq: { title: 'BullMQ shell', kind: 'bullmq', peer: true, width: 1 },
}

export interface Measured {
  readonly condition: Condition
  readonly runs: ReadonlyMap<SyncSide, readonly Run[]>
}

/** One of ours and one of theirs, under a condition, with the least rate and the greatest CPU time that are wanted of ours. */
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
  ['parley threads', 'bare processes'],
  ['parley threads', 'bare'],
  ['parley', 'portkey'],
  ['parley', 'bullmq'],
  ['parley threads', 'portkey'],
  ['parley threads', 'bullmq'],
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
