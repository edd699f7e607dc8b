/**
 * The cost of a claim when the queue is long: the SQLite store itself, with ten thousand queued jobs and with a million (or
 * ten million), in alternating turns. After each claim the jobs are settled and the same number is accepted, so that the
 * queue keeps its length and its fair order.
 */
import { join } from 'node:path'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { removeScratch, scratchFolder } from '../harness/scratch.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type Latencies, summarise } from '../load/percentiles.ts'
import { QueueStore } from './queue-store.ts'

const SHORT = 10_000
const LONGEST = 10_000_000
const CONTENT_BYTES = 900
/** Ten million longer conversations would not fit on many disks. */
const LEAST_CONTENT_BYTES = 100
const CLAIMS_OF_ONE = 400
const CLAIMS_OF_MANY = 80
const MANY = 256
const TARGET = 1.25

interface Measured {
  readonly one: Latencies
  readonly many: Latencies
  /** Jobs claimed, settled and replaced per second, in claims of MANY. */
  readonly drainedPerSecond: number
}

export const backlog: Benchmark = {
  name: 'backlog',
  about: 'the cost of a claim with 10,000 and 1,000,000 waiting jobs (10,000,000 with --large)',
  async run(options) {
    const folder = scratchFolder()
    try {
      await measure(folder, options)
    } finally {
      removeScratch(folder)
    }
  },
}

async function measure(folder: string, { rounds, waiting, large }: BenchOptions): Promise<void> {
  const lengths = { short: SHORT, long: large ? LONGEST : waiting }
  const text = 'x'.repeat(large ? LEAST_CONTENT_BYTES : CONTENT_BYTES)
  const content = () => text
  const stores = {
    short: await QueueStore.onSqlite(join(folder, 'short.db'), content),
    long: await QueueStore.onSqlite(join(folder, 'long.db'), content),
  }
  for (const side of ['short', 'long'] as const) {
    const startedMs = performance.now()
    await stores[side].fill(lengths[side])
    const seconds = (performance.now() - startedMs) / 1000
    printLine(`${figure(lengths[side])} jobs accepted in ${seconds.toFixed(1)} s`)
  }
  // An unmeasured first run, so that neither side pays for compilation.
  for (const store of Object.values(stores)) await claimAll(store)
  const runs = await interleaved(['short', 'long'], rounds, (side) => claimAll(stores[side]))
  for (const store of Object.values(stores)) await store.close()
  report(lengths, runs.get('short') ?? [], runs.get('long') ?? [], rounds)
}

async function claimAll(store: QueueStore): Promise<Measured> {
  const one = await store.claims(CLAIMS_OF_ONE, 1)
  const startedMs = performance.now()
  const many = await store.claims(CLAIMS_OF_MANY, MANY)
  const drainedPerSecond = (CLAIMS_OF_MANY * MANY * 1000) / (performance.now() - startedMs)
  return { one: summarise(one), many: summarise(many), drainedPerSecond }
}

const FIGURES: readonly { readonly name: string; readonly of: (measured: Measured) => number }[] = [
  { name: 'claim of 1, p50 ms', of: ({ one }) => one.p50 },
  { name: 'claim of 1, p99 ms', of: ({ one }) => one.p99 },
  { name: `claim of ${MANY}, p50 ms`, of: ({ many }) => many.p50 },
  { name: `claim of ${MANY}, p99 ms`, of: ({ many }) => many.p99 },
  { name: 'cost of a drained job, µs', of: ({ drainedPerSecond }) => 1e6 / drainedPerSecond },
]

function report(
  lengths: { readonly short: number; readonly long: number },
  short: readonly Measured[],
  long: readonly Measured[],
  rounds: number,
): void {
  const compared = FIGURES.map(({ name, of }) => ({
    name,
    short: spreadOf(short.map(of)),
    long: spreadOf(long.map(of)),
    ratio: ratios(long, short, of),
  }))
  const cell = ({ median }: Spread) => figure(median)
  const rows = compared.map((row) => [row.name, cell(row.short), cell(row.long), spread(row.ratio)])
  const head = ['', `${figure(lengths.short)} waiting`, `${figure(lengths.long)} waiting`, 'ratio']
  printLine()
  printLine(table(head, rows))
  keepResults('backlog', rounds, { lengths, figures: compared })
  const bars = compared.map(({ name, ratio: { median, min, max } }) => {
    return { label: name.replace(/ (ms|µs)$/, ''), value: median, min, max, ours: true, target: TARGET }
  })
  const title = `Cost with ${figure(lengths.long)} waiting jobs ÷ with ${figure(lengths.short)}`
  const note = 'Median of rounds in turns, their range, and the target (dashed).'
  writePicture(pictureOf('backlog'), title, note, [{ title: 'SQLite store', unit: '×', bars }])
}
