/** The callback report: tables, stored results and their picture. */
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

/** The steady load, without black holes and with them. */
export type SteadyRuns = ReadonlyMap<'without' | 'with', readonly Steady[]>

const TITLES: Readonly<Record<CallbacksSideName, string>> = {
  parley: 'Parley',
  bare: 'bare loop, not durable',
  bullmq: 'BullMQ',
}
/** Our rate over the peer's. */
const TARGETS: Readonly<Record<CallbacksSideName, number>> = { parley: Number.NaN, bare: 0.6, bullmq: 3 }
/** The 99th percentile with black holes divided by the one without. */
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

export function reportDeliveries(deliveries: readonly Delivery[]): string {
  const rows = deliveries.flatMap((delivery) =>
    [...delivery.runs].map(([side, runs]) => [
      `${nameOf(delivery.condition.holes)}: ${TITLES[side]}`,
      ...mediansOf(DELIVERY_FIGURES, runs),
      ...(side === 'parley' ? ['', ''] : [spread(rateOver(delivery, side)), figure(TARGETS[side])]),
    ]),
  )
  return table(['side', ...Object.keys(DELIVERY_FIGURES), 'our rate ÷', 'aim'], rows)
}

/** One percentile with black holes divided by the same without. */
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
  return table(['', ...Object.keys(STEADY_FIGURES), 'p99 ÷ without', 'aim'], rows)
}

export function keepCallbacks(
  name: string,
  deliveries: readonly Delivery[],
  runs: SteadyRuns,
  { rounds, callbacks, concurrency }: BenchOptions,
): void {
  const delivery = deliveries.map((one) => ({
    condition: nameOf(one.condition.holes),
    sides: Object.fromEntries(
      [...one.runs].map(([side, all]) => [
        side,
        {
          ...spreadsOf(DELIVERY_FIGURES, all),
          ...(side !== 'parley' && { parley_over_this: rateOver(one, side) }),
        },
      ]),
    ),
  }))
  const steady = {
    ...Object.fromEntries([...runs].map(([side, all]) => [side, spreadsOf(STEADY_FIGURES, all)])),
    p50_ratio: withOver(runs, STEADY_FIGURES['p50 ms']),
    p99_ratio: withOver(runs, STEADY_FIGURES['p99 ms']),
  }
  keepResults(name, rounds, { callbacks, concurrency, delivery, steady })
  const rates = deliveries.map((one) => ({
    title: `${figure(callbacks)} owed, ${nameOf(one.condition.holes)}: callbacks a second`,
    unit: '×',
    bars: one.condition.sides
      .filter((side) => side !== 'parley')
      .map((side) => bar(`÷ ${TITLES[side]}`, rateOver(one, side), TARGETS[side])),
  }))
  const note = 'Ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf(name), 'Callbacks to 100 hosts that answer after 50 ms', note, [
    ...rates,
    {
      title: 'Steady load: latency to the hosts that answer, with 10 black holes ÷ without',
      unit: '×',
      bars: [
        bar('p50', withOver(runs, STEADY_FIGURES['p50 ms'])),
        bar('p99', withOver(runs, STEADY_FIGURES['p99 ms']), STEADY_TARGET),
      ],
    },
  ])
}

function bar(label: string, { median: value, min, max }: Spread, target?: number): Bar {
  return { label, value, min, max, ours: true, ...(target !== undefined && { target }) }
}
