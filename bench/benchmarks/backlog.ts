/**
 * Measures claims on SQLite, in turns with ten thousand and with a million (or ten million) queued jobs. Each round works on a
 * copy of a prepared file. After each claim, the benchmark settles the jobs and adds as many new ones, so the queue keeps its
 * length.
 */
import { closeSync, constants, copyFileSync, fsyncSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { assertThat } from '../harness/invariants.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { removeScratch, scratchFolder } from '../harness/scratch.ts'
import { figure, spread, table } from '../harness/table.ts'
import { claimAll, FIGURES, type Measured, warmUpClaims } from './backlog-claims.ts'
import { fillSqlite } from './fill-by-sql.ts'
import { QueueStore } from './queue-store.ts'

const SHORT = 10_000
const LONG = 1_000_000
const FULL = 10_000_000
const CONTENT_BYTES = 900
/** With `--full`, contents have this size. Ten million longer conversations would not fit on many disks. */
const FULL_CONTENT_BYTES = 100
const TARGET = 1.25

type Side = 'short' | 'long'
type Lengths = Readonly<Record<Side, number>>

export const backlog: Benchmark = {
  name: 'backlog',
  about: 'the cost of a claim with 10,000 and 1,000,000 queued jobs (10,000,000 with --full)',
  rounds: 3,
  async run(options) {
    const folder = scratchFolder()
    try {
      await measure(folder, options)
    } finally {
      removeScratch(folder)
    }
  },
}

async function measure(folder: string, { rounds, waiting, full }: BenchOptions): Promise<void> {
  const lengths = { short: SHORT, long: waiting ?? (full ? FULL : LONG) }
  const content = 'x'.repeat(full ? FULL_CONTENT_BYTES : CONTENT_BYTES)
  for (const side of ['short', 'long'] as const) {
    const startedMs = performance.now()
    await fillSqlite(join(folder, `${side}.db`), lengths[side], content)
    const seconds = (performance.now() - startedMs) / 1000
    printLine(`${figure(lengths[side])} jobs written in ${seconds.toFixed(1)} s`)
  }
  const runs = await interleaved(['short', 'long'], rounds, (side) =>
    measureCopy(folder, side, lengths[side], content),
  )
  report(full ? 'backlog-full' : 'backlog', lengths, runs, rounds)
}

async function measureCopy(folder: string, side: Side, length: number, content: string): Promise<Measured> {
  const path = join(folder, 'round.db')
  copyFileSync(join(folder, `${side}.db`), path, constants.COPYFILE_FICLONE)
  // Without this sync, the first measured commit would also write the copied file to the disk.
  const file = openSync(path, 'r+')
  fsyncSync(file)
  closeSync(file)
  const store = await QueueStore.onSqlite(path, () => content)
  await warmUpClaims(store)
  const measured = await claimAll(store)
  const queued = await store.queued()
  await store.close()
  assertThat(queued === length, `${length} jobs were queued, and ${queued} are after all claims`)
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true })
  printLine(`${figure(length)} queued: ${figure(measured.drainedPerSecond)} jobs a second`)
  return measured
}

function report(
  name: string,
  lengths: Lengths,
  runs: ReadonlyMap<Side, readonly Measured[]>,
  rounds: number,
): void {
  const [short, long] = [runs.get('short') ?? [], runs.get('long') ?? []]
  const compared = FIGURES.map(({ name, of }) => ({
    name,
    short: spreadOf(short.map(of)),
    long: spreadOf(long.map(of)),
    ratio: ratios(long, short, of),
  }))
  const cell = ({ median }: Spread) => figure(median)
  const rows = compared.map((row) => [row.name, cell(row.short), cell(row.long), spread(row.ratio)])
  const head = ['', `${figure(lengths.short)} queued`, `${figure(lengths.long)} queued`, 'ratio']
  printLine()
  printLine(table(head, rows))
  printLine(`Target of each ratio: ${TARGET} or less.`)
  keepResults(name, rounds, { lengths, figures: compared, target: TARGET })
  const bars = compared.map(({ name, ratio: { median, min, max } }) => {
    return { label: name.replace(/ (ms|µs)$/, ''), value: median, min, max, ours: true, target: TARGET }
  })
  const title = `Cost with ${figure(lengths.long)} queued jobs ÷ with ${figure(lengths.short)}`
  const note = 'Median of rounds in turns, their range, and the target (dashed).'
  writePicture(pictureOf(name), title, note, [{ title: 'SQLite store', unit: '×', bars }])
}
