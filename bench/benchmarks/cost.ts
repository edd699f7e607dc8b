/**
 * Measures what a job costs on a lightly loaded server: a steady 500 jobs per second in batches, a model that takes a second,
 * and a callback for each job. Also measures single creates at that rate, and an idle server.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { countSyncs } from '../harness/count-syncs.ts'
import { type Rig, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, portkeyMissing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { writtenBytesOf } from '../harness/process-figures.ts'
import { type Receivers, startReceivers } from '../harness/receivers.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { sendSteadily } from '../load/batch-sender.ts'
import { monotonicMs } from '../load/monotonic.ts'
import { CREATE_OVER_BARE, type CreateCosts, compareCreates, reportCreates } from './cost-creates.ts'
import { type CostSideName, startCostSide } from './cost-sides.ts'
import { IDLE_AFTER_MS, type Idle, idleServers, STORES } from './idle.ts'

const PER_SECOND = 500
const BATCHES_PER_SECOND = 50
const BYTES = 1024
const MODEL_MS = 1000
const CONCURRENCY = 1024
const RECEIVER_DELAY_MS = 50
const WARM_UP_MS = 3000
const SYNCS_MS = 1000
const ARRIVED_WITHIN_MS = 60_000
/** The targets of `peers` are ratios of CPU times, those of `idle` shares of one core. */
const TARGETS = { peers: 0.28, idle: { SQLite: 0.002, Postgres: 0.003 } } as const

interface Measured {
  readonly cpuUs: number
  readonly writtenBytes: number
  readonly syncs: number
}

export const cost: Benchmark = {
  name: 'cost',
  about:
    'CPU, written bytes and syncs of a job at 500 a second, against BullMQ with Redis, Portkey and undici',
  async run(options) {
    const missing = [portkeyMissing(), bullmqMissing()].filter((one) => one !== null)
    for (const { peer, how } of missing) printLine(`${peer} is left out; to measure it: ${how}`)
    const sides: CostSideName[] = [
      'parley',
      'parley without keys',
      ...(missing.length > 0 ? [] : (['composed'] as const)),
    ]
    const rig = await startRig({})
    await rig.model.ask({ kind: 'delay', ms: MODEL_MS }, 'delayed')
    const receivers = await startReceivers(RECEIVER_DELAY_MS)
    const runs = await interleaved(sides, options.rounds, (name) => measure(name, rig, receivers, options))
    const idle = await idleServers(rig, options.rounds)
    const creates = await compareCreates(rig, options)
    await Promise.all([rig.stop(), receivers.child.stop()])
    report(runs, idle, creates, options)
  },
}

async function measure(
  name: CostSideName,
  rig: Rig,
  receivers: Receivers,
  { seconds }: BenchOptions,
): Promise<Measured> {
  const side = await startCostSide(name, { modelPort: rig.modelPort, concurrency: CONCURRENCY })
  const cpuMs = () => side.processes.reduce((sum, process) => sum + process.cpuMs(), 0)
  const reading = () => ({ cpuMs: cpuMs(), written: writtenBytesOf(side.writer.pid) })
  await receivers.expect({ holes: 0, measureFromMs: monotonicMs() })
  const measureMs = seconds * 1000
  const sent = sendSteadily({
    port: side.port,
    headers: side.headers,
    keyed: name !== 'parley without keys',
    receiversPort: receivers.port,
    bytes: BYTES,
    batches: ((WARM_UP_MS + measureMs + SYNCS_MS) / 1000) * BATCHES_PER_SECOND,
    jobsEach: PER_SECOND / BATCHES_PER_SECOND,
    paceMs: 1000 / BATCHES_PER_SECOND,
  })
  await pass(WARM_UP_MS)
  const from = reading()
  await pass(measureMs)
  const to = reading()
  const syncs = await countSyncs([side.writer.pid], SYNCS_MS)
  const jobIds = await sent
  const arrived = async () => (await receivers.report()).callbacks
  await waitForCount(arrived, jobIds.length, ARRIVED_WITHIN_MS, side.writer, 'callbacks arrived')
  await side.finish(jobIds)
  const jobs = (PER_SECOND * measureMs) / 1000
  const measured = {
    cpuUs: ((to.cpuMs - from.cpuMs) * 1000) / jobs,
    writtenBytes: (to.written - from.written) / jobs,
    syncs: syncs / ((PER_SECOND * SYNCS_MS) / 1000),
  }
  printLine(`${name}: ${figure(measured.cpuUs)} µs of CPU a job`)
  return measured
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

const TITLES: Readonly<Record<CostSideName, string>> = {
  parley: 'Parley',
  'parley without keys': 'Parley without keys',
  composed: 'BullMQ, Redis, Portkey, undici',
}

const FIGURES = {
  'CPU µs': ({ cpuUs }: Measured) => cpuUs,
  'written bytes': ({ writtenBytes }: Measured) => writtenBytes,
  syncs: ({ syncs }: Measured) => syncs,
} as const

function report(
  runs: ReadonlyMap<CostSideName, readonly Measured[]>,
  idle: Idle,
  creates: CreateCosts,
  { rounds }: BenchOptions,
): void {
  const rows = [...runs].map(([name, side]) => [
    TITLES[name],
    ...Object.values(FIGURES).map((of) => figure(spreadOf(side.map(of)).median)),
  ])
  printLine()
  printLine(table(['a job', ...Object.keys(FIGURES)], rows))
  const [ours = [], plain = [], peers = []] = [
    runs.get('parley'),
    runs.get('parley without keys'),
    runs.get('composed'),
  ]
  const cpu = ratios(ours, peers, ({ cpuUs }) => cpuUs)
  printLine(`CPU, Parley ÷ the others: ${spread(cpu)} (target ${TARGETS.peers} or less)`)
  printLine(`CPU, Parley ÷ itself without keys: ${spread(ratios(ours, plain, ({ cpuUs }) => cpuUs))}`)
  for (const store of STORES) {
    printLine(
      `Idle on ${store}, ${IDLE_AFTER_MS / 1000} s after a load: ${spread(percent(idle[store]))} % of a core (target ${TARGETS.idle[store] * 100} or less)`,
    )
  }
  const ofCreates = reportCreates(creates)
  const sides = [...runs].map(([name, side]) => {
    const figures = Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(side.map(of))])
    return [TITLES[name], Object.fromEntries(figures)]
  })
  keepResults('cost', rounds, {
    sides: Object.fromEntries(sides),
    cpu_over_peers: cpu,
    idle_share_of_a_core: idle,
    creates: ofCreates,
    targets: TARGETS,
  })
  const bar = (label: string, { median, min, max }: Spread, target: number) => {
    return { label, value: median, min, max, ours: true, target }
  }
  const bars = [
    ...(peers.length > 0 ? [bar('÷ BullMQ, Redis, Portkey', cpu, TARGETS.peers)] : []),
    ...(ofCreates.over_bare
      ? [bar('single create ÷ bare proxy', ofCreates.over_bare, CREATE_OVER_BARE)]
      : []),
  ]
  const note = 'Median, range over the rounds, target (dashed).'
  writePicture(pictureOf('cost'), 'A job at 500 a second, with a callback', note, [
    { title: 'CPU time', unit: '×', bars },
    {
      title: 'An idle server',
      unit: '% of a core',
      bars: STORES.map((store) => bar(`Parley on ${store}`, percent(idle[store]), TARGETS.idle[store] * 100)),
    },
  ])
}

function percent({ median, min, max }: Spread): Spread {
  return { median: median * 100, min: min * 100, max: max * 100 }
}
