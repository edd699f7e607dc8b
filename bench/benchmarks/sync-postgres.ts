/**
 * Measures single creates of 1 KB that wait for their answer. Compares Parley on Postgres, with and without idempotency keys,
 * with pg-boss behind a shell.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { LiveSides } from '../harness/live-sides.ts'
import { type Run, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { pgbossMissing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { startPostgresSide } from '../harness/postgres-sides.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'

const BYTES = 1024
const WARM_UP_MS = 5000
const SETTLE_MS = 300
const TITLES = { parley: 'Parley', plain: 'Parley without keys', pgboss: 'pg-boss shell' } as const
type SyncSide = keyof typeof TITLES
const RATE_OVER_PGBOSS = 5
const CPU_OVER_PLAIN = 1.25

interface Condition {
  readonly delayMs: number
  readonly connections: number
}

const CONDITIONS: readonly Condition[] = [
  { delayMs: 0, connections: 64 },
  { delayMs: 0, connections: 1 },
  { delayMs: 20, connections: 64 },
]

type Runs = ReadonlyMap<SyncSide, readonly Run[]>
interface Measured {
  readonly condition: Condition
  readonly runs: Runs
}

export const syncPostgres: Benchmark = {
  name: 'sync-postgres',
  about: 'single creates of 1 KB on Postgres, against pg-boss',
  async run(options) {
    const missing = pgbossMissing()
    printLine(
      missing
        ? `pg-boss is left out; to measure it: ${missing.how}`
        : 'The pg-boss shell leaves out: keys, tiers, checks, the time-out of waiting, callbacks, the answer cache, metrics.',
    )
    const sides: SyncSide[] = ['parley', 'plain', ...(missing ? [] : ['pgboss' as const])]
    const measured = await measureAll(sides, options)
    printLine()
    printLine(report(measured))
    keep(measured, options)
  },
}

async function measureAll(sides: readonly SyncSide[], options: BenchOptions): Promise<Measured[]> {
  const rig = await startRig({})
  const shape = { modelPort: rig.modelPort, bytes: BYTES }
  const warmUp = { connections: 64, warmUpMs: 0, measureMs: WARM_UP_MS }
  const start = (name: SyncSide) =>
    startPostgresSide(name === 'pgboss' ? 'pgboss' : 'parley', { ...shape, keyed: name !== 'plain' })
  const live = await LiveSides.start(rig, sides, start, warmUp)
  const measured: Measured[] = []
  for (const condition of CONDITIONS) {
    const { delayMs, connections } = condition
    await rig.model.ask({ kind: 'delay', ms: delayMs }, 'delayed')
    const load = { connections, warmUpMs: SETTLE_MS, measureMs: options.seconds * 1000 }
    const runs = await interleaved(sides, options.rounds, (name) => live.run(name, load))
    measured.push({ condition, runs })
    printLine(`measured: ${nameOf(condition)}`)
  }
  await live.finish()
  await rig.stop()
  return measured
}

function nameOf({ delayMs, connections }: Condition): string {
  return `${delayMs} ms, ${connections} connection${connections === 1 ? '' : 's'}`
}

function ratioOf(runs: Runs, theirs: SyncSide, of: (run: Run) => number): Spread {
  return ratios(runs.get('parley') ?? [], runs.get(theirs) ?? [], of)
}

const rate = ({ result }: Run) => result.perSecond
const cpu = ({ sideCpuUs }: Run) => sideCpuUs

const FIGURES = {
  'a second': rate,
  'p50 ms': ({ result }: Run) => result.latencies.p50,
  'p99 ms': ({ result }: Run) => result.latencies.p99,
  'CPU µs with Postgres': cpu,
  'Postgres µs': ({ processesCpuUs: [, postgres = Number.NaN] }: Run) => postgres,
  'WAL bytes': ({ disk }: Run) => disk.walBytes,
  'gen. %': ({ generatorBusy }: Run) => generatorBusy * 100,
  'mock %': ({ modelBusy }: Run) => modelBusy * 100,
} as const

function report(measured: readonly Measured[]): string {
  const rows = measured.flatMap(({ condition, runs }) =>
    [...runs].map(([name, side]) => {
      const figures = Object.values(FIGURES).map((of) => figure(spreadOf(side.map(of)).median))
      const compared = name === 'parley' ? ['', ''] : [rate, cpu].map((of) => spread(ratioOf(runs, name, of)))
      return [`${nameOf(condition)}: ${TITLES[name]}`, ...figures, ...compared]
    }),
  )
  const targets = `Targets at 0 ms and 64 connections: CPU ÷ without keys ≤ ${CPU_OVER_PLAIN}, rate ÷ pg-boss ≥ ${RATE_OVER_PGBOSS}`
  return `${table(['side', ...Object.keys(FIGURES), 'our rate ÷', 'our CPU ÷'], rows)}\n${targets}`
}

function keep(measured: readonly Measured[], { rounds }: BenchOptions): void {
  const results = measured.map(({ condition, runs }) => {
    const sides = [...runs].map(([name, side]) => {
      return [
        name,
        Object.fromEntries(Object.entries(FIGURES).map(([label, of]) => [label, spreadOf(side.map(of))])),
      ]
    })
    return {
      condition: nameOf(condition),
      sides: Object.fromEntries(sides),
      parley_over_pgboss: ratioOf(runs, 'pgboss', rate),
      cpu_over_without_keys: ratioOf(runs, 'plain', cpu),
    }
  })
  keepResults('sync-postgres', rounds, { results })
  const bars = measured
    .filter(({ runs }) => runs.has('pgboss'))
    .map(({ condition, runs }) => {
      const { median: value, min, max } = ratioOf(runs, 'pgboss', rate)
      return { label: nameOf(condition), value, min, max, ours: true }
    })
  const note = 'Answers a second, ours divided by theirs: median, range over the rounds.'
  const panels = bars.length === 0 ? [] : [{ title: '÷ pg-boss shell', unit: '×', bars }]
  writePicture(pictureOf('sync-postgres'), 'Single creates on Postgres', note, panels)
}
