/** Draining a stored backlog: Parley against the job queues that you would otherwise build on. */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, graphileMissing, type Missing, pgbossMissing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type Drained, drain } from './drain-run.ts'
import type { DrainSideName } from './drain-sides.ts'

const BYTES = 1024
const CONCURRENCY = 256

interface Peer {
  readonly name: DrainSideName
  readonly missing: () => Missing | null
  /** Our rate divided by the peer's. */
  readonly target: number
  readonly leavesOut: string
}

interface Contest {
  readonly ours: DrainSideName
  readonly peers: readonly Peer[]
}

const EVERY_PEER = 'fair order between accounts, the answer cache, usage, receipts'

const CONTESTS: readonly Contest[] = [
  {
    ours: 'parley on postgres',
    peers: [
      {
        name: 'graphile-worker',
        missing: graphileMissing,
        target: 1.5,
        leavesOut: `${EVERY_PEER}; and ended jobs are deleted, of which only the result stays`,
      },
      { name: 'pg-boss', missing: pgbossMissing, target: 6, leavesOut: EVERY_PEER },
    ],
  },
  {
    ours: 'parley on sqlite',
    peers: [{ name: 'bullmq', missing: bullmqMissing, target: 3, leavesOut: EVERY_PEER }],
  },
]

type Runs = ReadonlyMap<DrainSideName, readonly Drained[]>

export const drainBacklog: Benchmark = {
  name: 'drain',
  about: 'a stored backlog of 100,000 jobs run to its end, against graphile-worker, pg-boss and BullMQ',
  async run(options) {
    const runs: Map<DrainSideName, readonly Drained[]> = new Map()
    const leftOut: string[] = []
    for (const { ours, peers } of CONTESTS) {
      const present = peers.filter(({ name, missing, leavesOut }) => {
        const lacks = missing()
        printLine(
          lacks ? `${name} is left out; to measure it: ${lacks.how}` : `${name} leaves out: ${leavesOut}`,
        )
        if (lacks) leftOut.push(name)
        return lacks === null
      })
      const sides = [ours, ...present.map(({ name }) => name)]
      const measured = await interleaved(sides, options.rounds, (name) => measure(name, options))
      for (const [name, side] of measured) runs.set(name, side)
    }
    printLine()
    printLine(report(runs))
    keep(runs, leftOut, options)
  },
}

async function measure(name: DrainSideName, { jobs }: BenchOptions): Promise<Drained> {
  const drained = await drain(name, { jobs, bytes: BYTES, concurrency: CONCURRENCY })
  printLine(`${name}: ${figure(jobs)} jobs, ${figure(drained.perSecond)} a second`)
  return drained
}

function contestOf(name: DrainSideName): { ours: DrainSideName; peer: Peer } | null {
  for (const { ours, peers } of CONTESTS) {
    const peer = peers.find((one) => one.name === name)
    if (peer) return { ours, peer }
  }
  return null
}

function ratioOf(runs: Runs, name: DrainSideName): Spread | null {
  const contest = contestOf(name)
  return contest && ratios(runs.get(contest.ours) ?? [], runs.get(name) ?? [], ({ perSecond }) => perSecond)
}

const FIGURES = {
  'a second': ({ perSecond }: Drained) => perSecond,
  'worker CPU µs': ({ workerCpuUs }: Drained) => workerCpuUs,
  'database CPU µs': ({ databaseCpuUs }: Drained) => databaseCpuUs,
  'mock CPU µs': ({ modelCpuUs }: Drained) => modelCpuUs,
  'WAL bytes': ({ walBytes }: Drained) => walBytes,
  commits: ({ commits }: Drained) => commits,
} as const

function report(runs: Runs): string {
  const rows = [...runs].map(([name, side]) => {
    const figures = Object.values(FIGURES).map((of) => figure(spreadOf(side.map(of)).median))
    const ratio = ratioOf(runs, name)
    return [name, ...figures, ratio ? spread(ratio) : '', figure(contestOf(name)?.peer.target ?? Number.NaN)]
  })
  return table(['side', ...Object.keys(FIGURES), 'our rate ÷', 'aim'], rows)
}

function keep(runs: Runs, leftOut: readonly string[], { rounds, jobs }: BenchOptions): void {
  const sides = Object.fromEntries(
    [...runs].map(([name, side]) => {
      const figures = Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(side.map(of))])
      return [name, { ...Object.fromEntries(figures), parley_over_this: ratioOf(runs, name) }]
    }),
  )
  keepResults('drain', rounds, { jobs, sides, left_out: leftOut.join(', ') })
  const bars = [...runs.keys()].flatMap((name) => {
    const ratio = ratioOf(runs, name)
    const contest = contestOf(name)
    if (ratio === null || contest === null) return []
    const { median: value, min, max } = ratio
    return [{ label: `÷ ${name}`, value, min, max, ours: true, target: contest.peer.target }]
  })
  const note = 'Jobs a second, ours divided by theirs: median, range over the rounds, target (dashed).'
  const title = `A backlog of ${figure(jobs)} jobs, run to its end`
  writePicture(pictureOf('drain'), title, note, [{ title: 'Model at 0 ms', unit: '×', bars }])
}
