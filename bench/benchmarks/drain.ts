/** Measures how fast Parley drains a stored backlog, compared with the job queues that you could build on instead. */
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
  /** Parley's rate must be at least this many times the peer's. */
  readonly target: number
  readonly leavesOut: string
}

interface Contest {
  readonly ours: DrainSideName
  readonly peers: readonly Peer[]
}

const EVERY_PEER = 'fair order between accounts, the answer cache, usage, receipts'

const ON_SQLITE: Contest = {
  ours: 'parley on sqlite',
  peers: [{ name: 'bullmq', missing: bullmqMissing, target: 2, leavesOut: EVERY_PEER }],
}

const ON_POSTGRES: Contest = {
  ours: 'parley on postgres',
  peers: [
    {
      name: 'graphile-worker',
      missing: graphileMissing,
      target: 1,
      leavesOut: `${EVERY_PEER}; and ended jobs are deleted, of which only the result stays`,
    },
    { name: 'pg-boss', missing: pgbossMissing, target: 1.3, leavesOut: EVERY_PEER },
  ],
}

type Runs = ReadonlyMap<DrainSideName, readonly Drained[]>

export const drainBacklog: Benchmark = {
  name: 'drain',
  about: 'a stored backlog of 100,000 jobs run to its end on SQLite, against BullMQ',
  run: (options) => run('drain', ON_SQLITE, options),
}

export const drainPostgres: Benchmark = {
  name: 'drain-postgres',
  about: 'the same on Postgres, against graphile-worker and pg-boss',
  run: (options) => run('drain-postgres', ON_POSTGRES, options),
}

async function run(name: string, contest: Contest, options: BenchOptions): Promise<void> {
  const { ours, peers } = contest
  const leftOut: string[] = []
  const present = peers.filter(({ name: peer, missing, leavesOut }) => {
    const lacks = missing()
    printLine(lacks ? `${peer} is left out; to measure it: ${lacks.how}` : `${peer} leaves out: ${leavesOut}`)
    if (lacks) leftOut.push(peer)
    return lacks === null
  })
  const sides = [ours, ...present.map((peer) => peer.name)]
  const runs = await interleaved(sides, options.rounds, (side) => measure(side, options))
  printLine()
  printLine(report(contest, runs))
  keep(name, contest, runs, leftOut, options)
}

async function measure(name: DrainSideName, { jobs }: BenchOptions): Promise<Drained> {
  const drained = await drain(name, { jobs, bytes: BYTES, concurrency: CONCURRENCY })
  printLine(`${name}: ${figure(jobs)} jobs, ${figure(drained.perSecond)} a second`)
  return drained
}

function ratioOf({ ours }: Contest, runs: Runs, name: DrainSideName): Spread | null {
  if (name === ours) return null
  return ratios(runs.get(ours) ?? [], runs.get(name) ?? [], ({ perSecond }) => perSecond)
}

function targetOf({ peers }: Contest, name: DrainSideName): number | null {
  return peers.find((peer) => peer.name === name)?.target ?? null
}

const FIGURES = {
  'a second': ({ perSecond }: Drained) => perSecond,
  'worker CPU µs': ({ workerCpuUs }: Drained) => workerCpuUs,
  'database CPU µs': ({ databaseCpuUs }: Drained) => databaseCpuUs,
  'mock CPU µs': ({ modelCpuUs }: Drained) => modelCpuUs,
  'WAL bytes': ({ walBytes }: Drained) => walBytes,
  commits: ({ commits }: Drained) => commits,
} as const

function report(contest: Contest, runs: Runs): string {
  const rows = [...runs].map(([name, side]) => {
    const figures = Object.values(FIGURES).map((of) => figure(spreadOf(side.map(of)).median))
    const ratio = ratioOf(contest, runs, name)
    return [name, ...figures, ratio ? spread(ratio) : '', String(targetOf(contest, name) ?? '')]
  })
  return table(['side', ...Object.keys(FIGURES), 'our rate ÷', 'target'], rows)
}

function keep(
  benchmark: string,
  contest: Contest,
  runs: Runs,
  leftOut: readonly string[],
  { rounds, jobs }: BenchOptions,
): void {
  const sides = [...runs].map(([name, side]) => {
    const figures = Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(side.map(of))])
    const compared = { parley_over_this: ratioOf(contest, runs, name), target: targetOf(contest, name) }
    return [name, { ...Object.fromEntries(figures), ...compared }]
  })
  keepResults(benchmark, rounds, { jobs, sides: Object.fromEntries(sides), left_out: leftOut.join(', ') })
  const bars = [...runs.keys()].flatMap((name) => {
    const [ratio, target] = [ratioOf(contest, runs, name), targetOf(contest, name)]
    if (ratio === null || target === null) return []
    const { median: value, min, max } = ratio
    return [{ label: `÷ ${name}`, value, min, max, ours: true, target }]
  })
  const note = 'Jobs a second, ours divided by theirs: median, range over the rounds, target (dashed).'
  const title = `A backlog of ${figure(jobs)} jobs, run to its end: ${contest.ours}`
  writePicture(pictureOf(benchmark), title, note, [{ title: 'Model at 0 ms', unit: '×', bars }])
}
