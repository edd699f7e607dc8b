/** Reports the benchmarks of single creates: prints a table, stores the results and draws the picture. */
import type { BenchOptions } from '../harness/benchmark.ts'
import type { Run } from '../harness/load-run.ts'
import type { Missing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { comparisonsOf, type Measured, nameOf, SIDES } from './sync-sides.ts'

const FIGURES = {
  'a second': ({ result }: Run) => result.perSecond,
  'p50 ms': ({ result }: Run) => result.latencies.p50,
  'p99 ms': ({ result }: Run) => result.latencies.p99,
  'CPU µs': ({ sideCpuUs }: Run) => sideCpuUs,
  'gen. %': ({ generatorBusy }: Run) => generatorBusy * 100,
  'mock %': ({ modelBusy }: Run) => modelBusy * 100,
} as const

export function reportSync(all: readonly Measured[]): string {
  const sides = all.flatMap(({ condition, runs }) =>
    [...runs].map(([name, side]) => [
      `${nameOf(condition)}: ${SIDES[name].title}`,
      ...Object.values(FIGURES).map((of) => figure(spreadOf(side.map(of)).median)),
    ]),
  )
  const target = (value: number | null) => (value === null ? '' : String(value))
  const ratios = all.flatMap((measured) =>
    comparisonsOf(measured).map(({ ours, theirs, rate, cpu, rateTarget, cpuTarget }) => [
      `${nameOf(measured.condition)}: ${SIDES[ours].title} ÷ ${SIDES[theirs].title}`,
      spread(rate),
      target(rateTarget),
      spread(cpu),
      target(cpuTarget),
    ]),
  )
  const head = ['ratio', 'rate', 'at least', 'CPU', 'at most']
  return `${table(['side', ...Object.keys(FIGURES)], sides)}\n\n${table(head, ratios)}`
}

export function keepSync(
  all: readonly Measured[],
  missing: readonly Missing[],
  { rounds }: BenchOptions,
): void {
  const results = all.map((measured) => ({
    condition: nameOf(measured.condition),
    sides: Object.fromEntries(
      [...measured.runs].map(([name, side]) => {
        const figures = Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(side.map(of))])
        return [SIDES[name].title, Object.fromEntries(figures)]
      }),
    ),
    comparisons: comparisonsOf(measured),
  }))
  keepResults('sync', rounds, { results, left_out: missing.map(({ peer }) => peer).join(', ') })
  const panels = all.map((measured) => ({
    title: nameOf(measured.condition),
    unit: '×',
    bars: comparisonsOf(measured).map(({ ours, theirs, rate: { median, min, max }, rateTarget }) => ({
      label: `${SIDES[ours].title} ÷ ${SIDES[theirs].title}`,
      value: median,
      min,
      max,
      ours: true,
      ...(rateTarget !== null && { target: rateTarget }),
    })),
  }))
  const note = 'Answers a second, ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('sync'), 'Single creates, each durable before it is answered', note, panels)
}
