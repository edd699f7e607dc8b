/** Single creates of 1 KB that wait for their answer: Parley on SQLite against a bare proxy and against peers. */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { type Rig, type Run, runLoad, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, type Missing, portkeyMissing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { type SideName, startSide } from '../harness/sides.ts'
import { figure, spread, table } from '../harness/table.ts'
import { losesNothing } from './kill.ts'

const BYTES = 1024
const SERVICE_CPU = '0'
const RIG_CPU = '1'

interface Condition {
  readonly delayMs: number
  readonly connections: number
  readonly pinned: boolean
  readonly peers: boolean
}

const CONDITIONS: readonly Condition[] = [
  { delayMs: 0, connections: 64, pinned: false, peers: true },
  { delayMs: 0, connections: 64, pinned: true, peers: false },
  { delayMs: 0, connections: 1, pinned: false, peers: false },
  { delayMs: 0, connections: 1, pinned: true, peers: false },
  { delayMs: 20, connections: 64, pinned: false, peers: true },
  { delayMs: 20, connections: 64, pinned: true, peers: false },
  { delayMs: 20, connections: 1, pinned: false, peers: false },
]

const TITLES: Readonly<Record<SideName, string>> = {
  parley: 'Parley',
  bare: 'bare proxy, not durable',
  portkey: 'Portkey, not durable',
  bullmq: 'BullMQ shell',
}

/** Our rate divided by the peer's, at 0 ms and 64 connections. */
const TARGETS: Readonly<Record<SideName, number | null>> = { parley: null, bare: 0.8, portkey: 7, bullmq: 5 }
const PINNED_TARGET = 0.65

interface Measured {
  readonly condition: Condition
  readonly runs: ReadonlyMap<SideName, readonly Run[]>
}

export const sync: Benchmark = {
  name: 'sync',
  about: 'single creates of 1 KB, against a bare proxy, Portkey and BullMQ',
  async run(options) {
    const missing = [portkeyMissing(), bullmqMissing()].filter((one) => one !== null)
    for (const { peer, how } of missing) printLine(`${peer} is left out; to measure it: ${how}`)
    const peers = (['portkey', 'bullmq'] as const).filter((name) => !isMissing(name, missing))
    const measured: Measured[] = []
    for (const condition of CONDITIONS) {
      const sides: SideName[] = ['parley', 'bare', ...(condition.peers ? peers : [])]
      measured.push(await measure(condition, sides, options))
      printLine(report(measured.slice(-1)))
      printLine()
    }
    printLine(await losesNothing())
    printLine()
    printLine(report(measured))
    keep(measured, missing, options)
  },
}

function isMissing(name: SideName, missing: readonly Missing[]): boolean {
  return missing.some(({ peer }) => peer.toLowerCase() === name)
}

async function measure(
  condition: Condition,
  sides: readonly SideName[],
  { rounds, seconds }: BenchOptions,
): Promise<Measured> {
  const rig = await startRig({ cpus: condition.pinned ? RIG_CPU : undefined })
  await rig.model.ask({ kind: 'delay', ms: condition.delayMs }, 'delayed')
  const runs = await interleaved(sides, rounds, (name) => measureSide(name, condition, rig, seconds))
  await rig.stop()
  return { condition, runs }
}

async function measureSide(name: SideName, condition: Condition, rig: Rig, seconds: number): Promise<Run> {
  const side = await startSide(name, {
    modelPort: rig.modelPort,
    bytes: BYTES,
    cpus: condition.pinned ? SERVICE_CPU : undefined,
    connections: 256,
  })
  const { connections } = condition
  const order = {
    kind: 'run',
    target: side.target,
    connections,
    warmUpMs: seconds * 500,
    measureMs: seconds * 1000,
  } as const
  const run = await runLoad(rig, order, side.processes)
  await side.finish(run.result)
  // From here on only sums are needed.
  return { ...run, result: { ...run.result, jobIds: [] } }
}

function nameOf({ delayMs, connections, pinned }: Condition): string {
  return `${delayMs} ms, ${connections} connection${connections === 1 ? '' : 's'}${pinned ? ', pinned' : ''}`
}

/** Our rate compared with this side's, and our CPU time per answer compared with its. */
function against(runs: Measured['runs'], name: SideName): { rate: Spread; cpu: Spread; p99: Spread } {
  const [ours, theirs] = [runs.get('parley') ?? [], runs.get(name) ?? []]
  return {
    rate: ratios(ours, theirs, ({ result }) => result.perSecond),
    cpu: ratios(ours, theirs, ({ sideCpuUs }) => sideCpuUs),
    p99: ratios(ours, theirs, ({ result }) => result.latencies.p99),
  }
}

function report(all: readonly Measured[]): string {
  const rows = all.flatMap(({ condition, runs }) =>
    [...runs].map(([name, side]) => {
      const middle = (of: (run: Run) => number) => figure(spreadOf(side.map(of)).median)
      const { rate, cpu } = against(runs, name)
      return [
        `${nameOf(condition)}: ${TITLES[name]}`,
        middle(({ result }) => result.perSecond),
        middle(({ result }) => result.latencies.p50),
        middle(({ result }) => result.latencies.p99),
        middle(({ sideCpuUs }) => sideCpuUs),
        middle(({ generatorBusy }) => generatorBusy * 100),
        middle(({ modelBusy }) => modelBusy * 100),
        name === 'parley' ? '' : spread(rate),
        name === 'parley' ? '' : spread(cpu),
      ]
    }),
  )
  const head = [
    'side',
    'a second',
    'p50 ms',
    'p99 ms',
    'CPU µs',
    'gen. %',
    'mock %',
    'our rate ÷',
    'our CPU ÷',
  ]
  return table(head, rows)
}

function keep(measured: readonly Measured[], missing: readonly Missing[], { rounds }: BenchOptions): void {
  const results = measured.map(({ condition, runs }) => ({
    condition: nameOf(condition),
    sides: Object.fromEntries(
      [...runs].map(([name, side]) => [
        name,
        {
          per_second: spreadOf(side.map(({ result }) => result.perSecond)),
          p50_ms: spreadOf(side.map(({ result }) => result.latencies.p50)),
          p99_ms: spreadOf(side.map(({ result }) => result.latencies.p99)),
          cpu_us: spreadOf(side.map(({ sideCpuUs }) => sideCpuUs)),
          generator_busy: spreadOf(side.map(({ generatorBusy }) => generatorBusy)),
          model_busy: spreadOf(side.map(({ modelBusy }) => modelBusy)),
          ...(name !== 'parley' && { parley_over_this: against(runs, name) }),
        },
      ]),
    ),
  }))
  keepResults('sync', rounds, { results, left_out: missing.map(({ peer }) => peer).join(', ') })
  const panels = measured.map(({ condition, runs }) => ({
    title: nameOf(condition),
    unit: '×',
    bars: [...runs.keys()]
      .filter((name) => name !== 'parley')
      .map((name) => {
        const { median, min, max } = against(runs, name).rate
        const target = condition.delayMs === 0 && condition.connections === 64 ? TARGETS[name] : null
        const goal = condition.pinned && name === 'bare' ? PINNED_TARGET : target
        return {
          label: `÷ ${TITLES[name]}`,
          value: median,
          min,
          max,
          ours: true,
          ...(goal !== null && { target: goal }),
        }
      }),
  }))
  const note = 'Answers a second, ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('sync'), 'Single creates, each durable before it is answered', note, panels)
}
