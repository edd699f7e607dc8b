/**
 * Measures single creates at a steady rate: CPU time, and Parley's disk syncs. The sides are Parley on SQLite with and without
 * idempotency keys, a bare proxy, and with `--against FOLDER` another clone of Parley.
 */
import { join } from 'node:path'
import type { BenchOptions } from '../harness/benchmark.ts'
import { countSyncs } from '../harness/count-syncs.ts'
import { LiveSides } from '../harness/live-sides.ts'
import type { Rig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { type Side, startSide } from '../harness/sides.ts'
import { figure, spread, table } from '../harness/table.ts'

export const CREATE_OVER_BARE = 2.2
const PER_SECOND = 500
const BYTES = 1024
const MODEL_MS = 1000
const WARM_UP_MS = 3000
const SYNCS_MS = 1000
const SETTLE_MS = 300
/** These connections are enough for all requests that wait for an answer at the same time. */
const CONNECTIONS = 640

const TITLES = {
  parley: 'Parley',
  plain: 'Parley without keys',
  bare: 'bare proxy, not durable',
  other: 'the other clone',
} as const
type CreateSide = keyof typeof TITLES

interface CreateCost {
  readonly cpuUs: number
  /** NaN stands for a side that writes nothing. */
  readonly syncs: number
}

export type CreateCosts = ReadonlyMap<CreateSide, readonly CreateCost[]>

export async function compareCreates(
  rig: Rig,
  { against, rounds, seconds }: BenchOptions,
): Promise<CreateCosts> {
  await rig.model.ask({ kind: 'delay', ms: MODEL_MS }, 'delayed')
  const load = { connections: CONNECTIONS, perSecond: PER_SECOND }
  const names: CreateSide[] = ['parley', 'plain', 'bare', ...(against === null ? [] : (['other'] as const))]
  const pids = new Map<CreateSide, number>()
  const start = async (name: CreateSide): Promise<Side> => {
    const side = await startSide(name === 'bare' ? 'bare' : 'parley', {
      modelPort: rig.modelPort,
      bytes: BYTES,
      connections: CONNECTIONS,
      concurrency: CONNECTIONS,
      keyed: name !== 'plain',
      ...(name === 'other' && against !== null && { main: join(against, 'src/main.ts') }),
    })
    if (name !== 'bare') pids.set(name, side.pid)
    return side
  }
  const sides = await LiveSides.start(rig, names, start, { ...load, warmUpMs: 0, measureMs: WARM_UP_MS })
  // The first answers arrive only after the model's delay.
  const warmUpMs = MODEL_MS + SETTLE_MS
  /** Counting slows the process down, so syncs are counted in a run whose times are not used. */
  const syncsOf = async (name: CreateSide): Promise<number> => {
    const pid = pids.get(name)
    if (pid === undefined) return Number.NaN
    const counted = rig.generator.hear('measuring').then(() => countSyncs([pid], SYNCS_MS))
    await sides.run(name, { ...load, warmUpMs, measureMs: SYNCS_MS })
    return (await counted) / ((PER_SECOND * SYNCS_MS) / 1000)
  }
  const costs = await interleaved(names, rounds, async (name) => {
    const run = await sides.run(name, { ...load, warmUpMs, measureMs: seconds * 1000 })
    const cpuUs = (run.sideCpuUs * run.result.perSecond) / PER_SECOND
    return { cpuUs, syncs: await syncsOf(name) }
  })
  await sides.finish()
  return costs
}

const FIGURES = {
  'CPU µs': ({ cpuUs }: CreateCost) => cpuUs,
  syncs: ({ syncs }: CreateCost) => syncs,
} as const

export function reportCreates(costs: CreateCosts) {
  const ours = costs.get('parley') ?? []
  const over = (theirs: CreateSide): Spread | null => {
    const runs = costs.get(theirs)
    return runs === undefined ? null : ratios(ours, runs, ({ cpuUs }) => cpuUs)
  }
  const rows = [...costs].map(([name, runs]) => {
    const ratio = name === 'parley' ? null : over(name)
    const figures = Object.values(FIGURES).map((of) => figure(spreadOf(runs.map(of)).median))
    return [
      TITLES[name],
      ...figures,
      ratio === null ? '' : spread(ratio),
      name === 'bare' ? `≤ ${CREATE_OVER_BARE}` : '',
    ]
  })
  printLine(`\n${table(['a single create', ...Object.keys(FIGURES), 'our CPU ÷', 'target'], rows)}`)
  const sides = [...costs].map(([name, runs]) => {
    return [
      TITLES[name],
      Object.fromEntries(Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(runs.map(of))])),
    ]
  })
  return {
    sides: Object.fromEntries(sides),
    over_bare: over('bare'),
    over_without_keys: over('plain'),
    over_other_clone: over('other'),
    target_over_bare: CREATE_OVER_BARE,
  }
}
