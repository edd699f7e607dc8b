/** Reports the callback benchmarks: prints tables, stores results and draws the picture. */
import type { BenchOptions } from '../harness/benchmark.ts'
import { type Bar, writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import type { Delivered } from './callbacks-run.ts'
import type { CallbacksSideName } from './callbacks-sides.ts'
import type { Steady } from './callbacks-steady.ts'

export interface DeliveryCondition {
  readonly holes: number
  readonly sides: readonly CallbacksSideName[]
}

export interface Delivery {
  readonly condition: DeliveryCondition
  readonly runs: ReadonlyMap<CallbacksSideName, readonly Delivered[]>
}

export type SteadyRuns = ReadonlyMap<'without' | 'with', readonly Steady[]>

const TITLES: Readonly<Record<CallbacksSideName, string>> = {
  parley: 'Parley',
  bare: 'bare loop, not durable',
  bullmq: 'BullMQ',
}
interface Targets {
  /**
   * `rate` is the least acceptable ratio of Parley's rate to the peer's. `cpu` is the greatest acceptable ratio of CPU times
   * per callback, including the database.
   */
  readonly rate?: number
  readonly cpu?: number
}
const TARGETS: Readonly<Record<CallbacksSideName, Targets>> = {
  parley: {},
  bare: { rate: 0.6 },
  bullmq: { cpu: 0.6 },
}
/** With black holes, the 99th percentile may be at most this many times as long as without them. */
const STEADY_TARGET = 1.2

const DELIVERY_FIGURES = {
  'a second': ({ perSecond }: Delivered) => perSecond,
  'sender CPU µs': ({ senderCpuUs }: Delivered) => senderCpuUs,
  'database CPU µs': ({ databaseCpuUs }: Delivered) => databaseCpuUs,
  'receivers %': ({ receiversBusy }: Delivered) => receiversBusy * 100,
  connections: ({ connections }: Delivered) => connections,
} as const

const STEADY_FIGURES = {
  'p50 ms': ({ latencies }: Steady) => latencies.p50,
  'p99 ms': ({ latencies }: Steady) => latencies.p99,
  'max ms': ({ latencies }: Steady) => latencies.max,
  'Parley %': ({ parleyBusy }: Steady) => parleyBusy * 100,
  'receivers %': ({ receiversBusy }: Steady) => receiversBusy * 100,
  'into black holes': ({ lost }: Steady) => lost,
} as const

type Figures<Run> = Readonly<Record<string, (run: Run) => number>>

function spreadsOf<Run>(figures: Figures<Run>, runs: readonly Run[]): Record<string, Spread> {
  return Object.fromEntries(Object.entries(figures).map(([label, of]) => [label, spreadOf(runs.map(of))]))
}

function mediansOf<Run>(figures: Figures<Run>, runs: readonly Run[]): string[] {
  return Object.values(spreadsOf(figures, runs)).map(({ median }) => figure(median))
}

function nameOf(holes: number): string {
  return holes === 0 ? 'all hosts answer' : `${holes} black holes`
}

function rateOver({ runs }: Delivery, side: CallbacksSideName): Spread {
  return ratios(runs.get('parley') ?? [], runs.get(side) ?? [], ({ perSecond }) => perSecond)
}

function cpuOver({ runs }: Delivery, side: CallbacksSideName): Spread {
  const cpuUs = ({ senderCpuUs, databaseCpuUs }: Delivered) => senderCpuUs + databaseCpuUs
  return ratios(runs.get('parley') ?? [], runs.get(side) ?? [], cpuUs)
}

export function reportDeliveries(deliveries: readonly Delivery[]): string {
  const compared = (delivery: Delivery, side: CallbacksSideName) => {
    if (side === 'parley') return ['', '', '', '']
    const { rate, cpu } = TARGETS[side]
    const [ourRate, ourCpu] = [spread(rateOver(delivery, side)), spread(cpuOver(delivery, side))]
    return [ourRate, String(rate ?? ''), ourCpu, String(cpu ?? '')]
  }
  const rows = deliveries.flatMap((delivery) =>
    [...delivery.runs].map(([side, runs]) => [
      `${nameOf(delivery.condition.holes)}: ${TITLES[side]}`,
      ...mediansOf(DELIVERY_FIGURES, runs),
      ...compared(delivery, side),
    ]),
  )
  const head = ['side', ...Object.keys(DELIVERY_FIGURES), 'our rate ÷', 'at least', 'our CPU ÷', 'at most']
  return table(head, rows)
}

function withOver(runs: SteadyRuns, of: (run: Steady) => number): Spread {
  return ratios(runs.get('with') ?? [], runs.get('without') ?? [], of)
}

export function reportSteady(runs: SteadyRuns): string {
  const rows = [...runs].map(([side, all]) => [
    `steady load, ${side} black holes`,
    ...mediansOf(STEADY_FIGURES, all),
    ...(side === 'without'
      ? ['', '']
      : [spread(withOver(runs, STEADY_FIGURES['p99 ms'])), `${STEADY_TARGET}`]),
  ])
  return table(['', ...Object.keys(STEADY_FIGURES), 'p99 ÷ without', 'target'], rows)
}

export function keepDeliveries(
  name: string,
  deliveries: readonly Delivery[],
  { rounds, callbacks, concurrency }: BenchOptions,
): void {
  const delivery = deliveries.map((one) => ({
    condition: nameOf(one.condition.holes),
    sides: Object.fromEntries(
      [...one.runs].map(([side, all]) => {
        const compared = {
          parley_rate_over_this: rateOver(one, side),
          parley_cpu_over_this: cpuOver(one, side),
          targets: TARGETS[side],
        }
        return [side, { ...spreadsOf(DELIVERY_FIGURES, all), ...(side !== 'parley' && compared) }]
      }),
    ),
  }))
  keepResults(name, rounds, { callbacks, concurrency, delivery })
  const panels = deliveries.flatMap((one) => {
    const peers = one.condition.sides.filter((side) => side !== 'parley')
    const title = `${figure(callbacks)} owed, ${nameOf(one.condition.holes)}`
    return [
      {
        title: `${title}: callbacks a second`,
        unit: '×',
        bars: peers.map((side) => bar(`÷ ${TITLES[side]}`, rateOver(one, side), TARGETS[side].rate)),
      },
      {
        title: `${title}: CPU time of a callback`,
        unit: '×',
        bars: peers.map((side) => bar(`÷ ${TITLES[side]}`, cpuOver(one, side), TARGETS[side].cpu)),
      },
    ]
  })
  const note = 'Ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf(name), 'Callbacks to 100 hosts that answer after 50 ms', note, panels)
}

export function keepSteady(name: string, runs: SteadyRuns, { rounds }: BenchOptions): void {
  const ratioOf = (label: 'p50 ms' | 'p99 ms') => withOver(runs, STEADY_FIGURES[label])
  keepResults(name, rounds, {
    ...Object.fromEntries([...runs].map(([side, all]) => [side, spreadsOf(STEADY_FIGURES, all)])),
    p50_ratio: ratioOf('p50 ms'),
    p99_ratio: ratioOf('p99 ms'),
    target: STEADY_TARGET,
  })
  const note = 'Median, range over the rounds, target (dashed).'
  writePicture(pictureOf(name), 'Callbacks under a steady load', note, [
    {
      title: 'Latency to the hosts that answer, with 10 black holes ÷ without',
      unit: '×',
      bars: [bar('p50', ratioOf('p50 ms')), bar('p99', ratioOf('p99 ms'), STEADY_TARGET)],
    },
  ])
}

function bar(label: string, { median: value, min, max }: Spread, target?: number): Bar {
  return { label, value, min, max, ours: true, ...(target !== undefined && { target }) }
}
