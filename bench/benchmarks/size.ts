/**
 * Measures single creates from 1 KB to 1 MB. Compares Parley on SQLite, with and without idempotency keys, with a bare proxy.
 * The cost must grow no faster than the bytes.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { LiveSides } from '../harness/live-sides.ts'
import { type Rig, type Run, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { startSide } from '../harness/sides.ts'
import { figure, spread, table } from '../harness/table.ts'

interface Size {
  readonly name: string
  readonly bytes: number
  /** Large bodies have fewer connections, so that a round has only a few megabytes in transit. */
  readonly connections: number
  readonly maxInputTokens: number
  /** Parley's rate must be at least this many times the bare proxy's. */
  readonly target: number | null
}

/** A text has at most as many tokens as bytes, so Parley does not count tokens below this limit. */
const UNCOUNTED = 10_000_000
/** Tier user_max has this limit by default. A text with more bytes may exceed it, so Parley counts tokens. */
const COUNTED = 256_000

const SIZES: readonly Size[] = [
  { name: '1 KB', bytes: 1024, connections: 64, maxInputTokens: UNCOUNTED, target: 0.4 },
  { name: '10 KB', bytes: 10_240, connections: 64, maxInputTokens: UNCOUNTED, target: 0.45 },
  { name: '100 KB', bytes: 102_400, connections: 16, maxInputTokens: UNCOUNTED, target: 0.45 },
  { name: '1 MB', bytes: 1_000_000, connections: 8, maxInputTokens: UNCOUNTED, target: 0.35 },
  { name: '1 MB, tokens counted', bytes: 1_000_000, connections: 8, maxInputTokens: COUNTED, target: null },
]

const NAMES = ['parley', 'plain', 'bare'] as const
const WARM_UP_MS = 3000
const SETTLE_MS = 300

interface Measured {
  readonly size: Size
  readonly parley: readonly Run[]
  readonly plain: readonly Run[]
  readonly bare: readonly Run[]
}

export const size: Benchmark = {
  name: 'size',
  about: 'single creates of 1, 10 and 100 KB and 1 MB, against a bare proxy',
  async run(options) {
    const rig = await startRig({})
    const measured: Measured[] = []
    for (const each of SIZES) {
      measured.push(await measure(each, rig, options))
      printLine(table(HEAD, measured.slice(-1).flatMap(rowsOf)))
      printLine()
    }
    await rig.stop()
    report(measured, options)
  },
}

async function measure(each: Size, rig: Rig, { rounds, seconds }: BenchOptions): Promise<Measured> {
  const { bytes, connections, maxInputTokens } = each
  const shape = { modelPort: rig.modelPort, bytes, connections: 256, maxInputTokens }
  const warmUp = { connections, warmUpMs: 0, measureMs: WARM_UP_MS }
  const start = (name: (typeof NAMES)[number]) =>
    startSide(name === 'bare' ? 'bare' : 'parley', { ...shape, keyed: name !== 'plain' })
  const sides = await LiveSides.start(rig, NAMES, start, warmUp)
  const load = { connections, warmUpMs: SETTLE_MS, measureMs: seconds * 1000 }
  const runs = await interleaved(NAMES, rounds, (side) => sides.run(side, load))
  await sides.finish()
  const [parley = [], plain = [], bare = []] = NAMES.map((name) => runs.get(name))
  return { size: each, parley, plain, bare }
}

const HEAD = ['side', 'a second', 'p50 ms', 'p99 ms', 'CPU µs', 'our rate ÷', 'our CPU ÷', 'target']

type Other = 'plain' | 'bare'
const rateOf = (each: Measured, other: Other = 'bare') =>
  ratios(each.parley, each[other], ({ result }) => result.perSecond)
const cpuOf = (each: Measured, other: Other = 'bare') =>
  ratios(each.parley, each[other], ({ sideCpuUs }) => sideCpuUs)

function rowsOf(measured: Measured): string[][] {
  const row = (title: string, runs: readonly Run[], compared: readonly string[]) => {
    const middle = (of: (run: Run) => number) => figure(spreadOf(runs.map(of)).median)
    return [
      `${measured.size.name}: ${title}`,
      middle(({ result }) => result.perSecond),
      middle(({ result }) => result.latencies.p50),
      middle(({ result }) => result.latencies.p99),
      middle(({ sideCpuUs }) => sideCpuUs),
      ...compared,
    ]
  }
  const compared = (other: Other) => [spread(rateOf(measured, other)), spread(cpuOf(measured, other))]
  const { target } = measured.size
  return [
    row('Parley', measured.parley, ['', '', '']),
    row('Parley without keys', measured.plain, [...compared('plain'), '']),
    row('bare proxy, not durable', measured.bare, [
      ...compared('bare'),
      target === null ? '' : `≥ ${target}`,
    ]),
  ]
}

function report(measured: readonly Measured[], { rounds }: BenchOptions): void {
  printLine(table(HEAD, measured.flatMap(rowsOf)))
  const results = measured.map((each) => ({
    size: each.size.name,
    rate_over_bare: rateOf(each),
    cpu_over_bare: cpuOf(each),
    rate_over_without_keys: rateOf(each, 'plain'),
    cpu_over_without_keys: cpuOf(each, 'plain'),
    target: each.size.target,
  }))
  keepResults('size', rounds, { results })
  const bars = measured.map((each) => {
    const { median: value, min, max } = rateOf(each)
    const { name: label, target } = each.size
    return { label, value, min, max, ours: true, ...(target !== null && { target }) }
  })
  const note = 'Answers a second ÷ those of a bare proxy: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('size'), 'Single creates by size', note, [{ title: 'Rate', unit: '×', bars }])
}
