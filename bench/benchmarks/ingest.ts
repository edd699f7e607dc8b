/**
 * Measures how fast batches of 30 jobs of 1 KB are accepted durably, compared with BullMQ on SQLite and graphile-worker on
 * Postgres.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { type Rig, type Run, runLoad, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, graphileMissing, type Missing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type IngestSideName, JOBS_EACH, startIngestSide } from './ingest-sides.ts'

const CONNECTIONS = 16

interface Contest {
  readonly ours: IngestSideName
  /** This side differs only in having no idempotency keys. */
  readonly plain: IngestSideName
  readonly peer: IngestSideName
  readonly missing: () => Missing | null
  /** Parley's rate must be at least this many times the peer's. */
  readonly target: number
}

const CONTESTS: readonly Contest[] = [
  {
    ours: 'parley on sqlite',
    plain: 'parley on sqlite without keys',
    peer: 'bullmq',
    missing: bullmqMissing,
    target: 3,
  },
  {
    ours: 'parley on postgres',
    plain: 'parley on postgres without keys',
    peer: 'graphile-worker',
    missing: graphileMissing,
    target: 1.2,
  },
]

interface Measured extends Contest {
  readonly our: readonly Run[]
  readonly without: readonly Run[]
  readonly their: readonly Run[]
}

export const ingest: Benchmark = {
  name: 'ingest',
  about: 'batches of 30 jobs until they are accepted, against BullMQ and graphile-worker',
  async run(options) {
    const rig = await startRig({})
    await rig.model.ask({ kind: 'hold', timed: false }, 'holding')
    const measured: Measured[] = []
    for (const contest of CONTESTS) {
      const lacks = contest.missing()
      if (lacks) {
        printLine(`${contest.peer} is left out; to measure it: ${lacks.how}`)
        continue
      }
      const names = [contest.ours, contest.plain, contest.peer]
      const runs = await interleaved(names, options.rounds, (name) => measure(name, rig, options))
      const [our = [], without = [], their = []] = names.map((name) => runs.get(name))
      measured.push({ ...contest, our, without, their })
    }
    await rig.stop()
    report(measured, options)
  },
}

async function measure(name: IngestSideName, rig: Rig, { seconds }: BenchOptions): Promise<Run> {
  const side = await startIngestSide(name, rig)
  const order = {
    kind: 'run',
    target: side.target,
    connections: CONNECTIONS,
    warmUpMs: seconds * 500,
    measureMs: seconds * 1000,
  } as const
  const run = await runLoad(rig, order, side.processes)
  await side.finish(run.result)
  printLine(`${name}: ${figure(run.result.perSecond * JOBS_EACH)} jobs a second`)
  return { ...run, result: { ...run.result, jobIds: [] } }
}

const rateOf = ({ our, their }: Pick<Measured, 'our' | 'their'>) =>
  ratios(our, their, ({ result }) => result.perSecond)
const cpuOf = ({ our, their }: Pick<Measured, 'our' | 'their'>) =>
  ratios(our, their, ({ sideCpuUs }) => sideCpuUs)
const withoutKeys = ({ our, without }: Measured) => ({ our, their: without })

function report(measured: readonly Measured[], { rounds }: BenchOptions): void {
  const row = (name: string, runs: readonly Run[], compared: readonly string[]) => {
    const middle = (of: (run: Run) => number) => figure(spreadOf(runs.map(of)).median)
    return [
      name,
      middle(({ result }) => result.perSecond * JOBS_EACH),
      middle(({ result }) => result.latencies.p99),
      middle(({ sideCpuUs }) => sideCpuUs / JOBS_EACH),
      ...compared,
    ]
  }
  const rows = measured.flatMap((each) => [
    row(each.ours, each.our, ['', '', '']),
    row(each.plain, each.without, [spread(rateOf(withoutKeys(each))), spread(cpuOf(withoutKeys(each))), '']),
    row(each.peer, each.their, [spread(rateOf(each)), spread(cpuOf(each)), figure(each.target)]),
  ])
  const head = ['side', 'jobs a second', 'p99 ms', 'CPU µs a job', 'our rate ÷', 'our CPU ÷', 'target']
  printLine()
  printLine(table(head, rows))
  const results = measured.map((each) => ({
    peer: each.peer,
    rate_over_peer: rateOf(each),
    cpu_over_peer: cpuOf(each),
    rate_over_without_keys: rateOf(withoutKeys(each)),
    cpu_over_without_keys: cpuOf(withoutKeys(each)),
    target: each.target,
  }))
  keepResults('ingest', rounds, { results })
  const bars = measured.map((each) => {
    const { median: value, min, max } = rateOf(each)
    return { label: `÷ ${each.peer}`, value, min, max, ours: true, target: each.target }
  })
  const note =
    'Jobs accepted a second, ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('ingest'), 'Batches of 30 jobs, until they are accepted', note, [
    { title: 'Rate', unit: '×', bars },
  ])
}
