/** Measures what a job costs when more nodes on one Postgres share the same load. */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type NodesCost, nodesRun } from './nodes-run.ts'

const PER_SECOND = 500
const DELAY_MS = 50
const TARGET = 1.15

type Side = '1 node' | '2 nodes' | '4 nodes' | '1 node on SQLite'
const SIDES: Readonly<Record<Side, number | null>> = {
  '1 node': 1,
  '2 nodes': 2,
  '4 nodes': 4,
  '1 node on SQLite': null,
}
const NAMES = Object.keys(SIDES) as Side[]
type Runs = ReadonlyMap<Side, readonly NodesCost[]>

export const nodes: Benchmark = {
  name: 'nodes',
  about: `what a job costs at ${PER_SECOND} a second on 1, 2 and 4 nodes that share a Postgres`,
  async run({ rounds, seconds }: BenchOptions) {
    const options = { perSecond: PER_SECOND, delayMs: DELAY_MS, seconds }
    const runs = await interleaved(NAMES, rounds, (side) => nodesRun({ ...options, nodes: SIDES[side] }))
    printLine(report(runs))
    printLine(
      '\nOn SQLite, what is written is all that reaches the disk, the database file as well as its WAL.',
    )
    keep(runs, rounds)
  },
}

const FIGURES = {
  'a second': ({ perSecond }: NodesCost) => perSecond,
  'p50 ms': ({ latencies }: NodesCost) => latencies.p50,
  'p99 ms': ({ latencies }: NodesCost) => latencies.p99,
  'nodes CPU µs': ({ nodesCpuUs }: NodesCost) => nodesCpuUs,
  'Postgres CPU µs': ({ postgresCpuUs }: NodesCost) => postgresCpuUs,
  'WAL bytes': ({ writtenBytes }: NodesCost) => writtenBytes,
  commits: ({ commits }: NodesCost) => commits,
} as const

const COSTS = {
  'CPU of all': ({ nodesCpuUs, postgresCpuUs }: NodesCost) => nodesCpuUs + postgresCpuUs,
  'CPU of the nodes': FIGURES['nodes CPU µs'],
  'CPU of Postgres': FIGURES['Postgres CPU µs'],
  WAL: FIGURES['WAL bytes'],
  commits: FIGURES.commits,
} as const

function ratioOf(runs: Runs, side: Side, of: (cost: NodesCost) => number): Spread {
  return ratios(runs.get(side) ?? [], runs.get('1 node') ?? [], of)
}

function report(runs: Runs): string {
  const rows = [...runs].map(([side, costs]) => {
    const figures = Object.values(FIGURES).map((of) => figure(spreadOf(costs.map(of)).median))
    return [side, ...figures, side === '1 node' ? '' : spread(ratioOf(runs, side, COSTS['CPU of all']))]
  })
  return table(['', ...Object.keys(FIGURES), 'CPU ÷ 1 node'], rows)
}

function keep(runs: Runs, rounds: number): void {
  const sides = [...runs].map(([side, costs]) => {
    const figures = Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(costs.map(of))])
    const over = Object.entries(COSTS).map(([label, of]) => [label, ratioOf(runs, side, of)])
    return [side, { ...Object.fromEntries(figures), over_one_node: Object.fromEntries(over) }]
  })
  keepResults('nodes', rounds, { load: PER_SECOND, model_ms: DELAY_MS, sides: Object.fromEntries(sides) })
  const panels = (['2 nodes', '4 nodes'] as const).map((side) => ({
    title: `${side} ÷ 1 node`,
    unit: '×',
    bars: Object.entries(COSTS).map(([label, of]) => {
      const { median: value, min, max } = ratioOf(runs, side, of)
      return { label, value, min, max, ours: true, target: TARGET }
    }),
  }))
  const note = 'Cost of a job: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('nodes'), `${PER_SECOND} jobs a second on more nodes`, note, panels)
}
