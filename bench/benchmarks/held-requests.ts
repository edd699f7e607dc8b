/**
 * Holds many single creates while the model is silent, then answers them within a second. Measures the memory per pending
 * request, and how soon each caller gets its answer.
 *
 * With the default concurrency, most jobs wait in the database. That case is compared with a node:http server that only holds
 * requests. With as many slots as requests, every job also has an open call to the model. That case is compared with a bare
 * proxy.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { startRig } from '../harness/load-run.ts'
import { openFilesAllowed } from '../harness/open-files.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type HeldRun, type HoldingSide, heldRun } from './held-requests-run.ts'

const HELD_REQUESTS = 10_000
/** A service opens this many files besides the connections of its callers and calls. */
const OTHER_FILES = 250
const MEMORY_TARGET = 1.5
const WAKE_TARGET_MS = 25

const PAIRS = [
  { name: 'default concurrency', ours: 'parley', theirs: 'holder', filesEach: 1 },
  { name: 'all running', ours: 'wide parley', theirs: 'proxy', filesEach: 2 },
] as const satisfies readonly { name: string; ours: HoldingSide; theirs: HoldingSide; filesEach: number }[]

const TITLES: Readonly<Record<HoldingSide, string>> = {
  parley: 'Parley',
  holder: 'bare node:http',
  'wide parley': 'Parley',
  proxy: 'bare proxy',
}

interface Measured {
  readonly name: string
  readonly ours: HoldingSide
  readonly theirs: HoldingSide
  readonly runs: ReadonlyMap<HoldingSide, readonly HeldRun[]>
}

export const heldRequests: Benchmark = {
  name: 'waiters',
  about: '10,000 single creates held at once: memory of each, and how soon each hears of its answer',
  async run(options) {
    const measured: Measured[] = []
    for (const pair of PAIRS) measured.push({ ...pair, runs: await measure(pair, options) })
    printLine(report(measured))
    keep(measured, options)
  },
}

async function measure(pair: (typeof PAIRS)[number], { rounds }: BenchOptions) {
  const openFiles = openFilesAllowed()
  const held = Math.min(HELD_REQUESTS, Math.floor((openFiles - OTHER_FILES) / pair.filesEach))
  if (held < HELD_REQUESTS)
    printLine(`${pair.name}: ${held} held requests, because ${openFiles} files may be open here`)
  return interleaved<HoldingSide, HeldRun>([pair.ours, pair.theirs], rounds, async (side) => {
    const rig = await startRig({ openFiles })
    const run = await heldRun(side, rig, held, openFiles)
    await rig.stop()
    return run
  })
}

function report(measured: readonly Measured[]): string {
  const rows = measured.flatMap(({ name, runs, ours, theirs }) =>
    [ours, theirs].map((side) => {
      const all = runs.get(side) ?? []
      const middle = (of: (run: HeldRun) => number) => figure(spreadOf(all.map(of)).median)
      const against = (of: (run: HeldRun) => number) =>
        side === ours ? spread(ratios(all, runs.get(theirs) ?? [], of)) : ''
      return [
        `${name}: ${TITLES[side]}`,
        middle(({ rssBytes }) => rssBytes / 1024),
        against(({ rssBytes }) => rssBytes),
        middle(({ heapBytes }) => heapBytes / 1024),
        against(({ heapBytes }) => heapBytes),
        middle(({ wake }) => wake.p50),
        middle(({ wake }) => wake.p99),
        middle(({ allDoneMs }) => allDoneMs),
      ]
    }),
  )
  const head = ['', 'RSS KiB each', '÷', 'heap KiB each', '÷', 'wake p50 ms', 'wake p99 ms', 'all done ms']
  return table(head, rows)
}

function keep(measured: readonly Measured[], { rounds }: BenchOptions): void {
  const results = measured.map(({ name, runs, ours, theirs }) => ({
    name,
    sides: Object.fromEntries(
      [...runs].map(([side, all]) => [
        side,
        {
          rss_bytes_each: spreadOf(all.map(({ rssBytes }) => rssBytes)),
          heap_bytes_each: spreadOf(all.map(({ heapBytes }) => heapBytes)),
          wake_p50_ms: spreadOf(all.map(({ wake }) => wake.p50)),
          wake_p99_ms: spreadOf(all.map(({ wake }) => wake.p99)),
          all_done_ms: spreadOf(all.map(({ allDoneMs }) => allDoneMs)),
        },
      ]),
    ),
    rss_ratio: ratios(runs.get(ours) ?? [], runs.get(theirs) ?? [], ({ rssBytes }) => rssBytes),
    heap_ratio: ratios(runs.get(ours) ?? [], runs.get(theirs) ?? [], ({ heapBytes }) => heapBytes),
  }))
  keepResults('waiters', rounds, { held: HELD_REQUESTS, results })
  const memory = results.map(({ name, rss_ratio: { median, min, max } }) => {
    return { label: name, value: median, min, max, ours: true, target: MEMORY_TARGET }
  })
  const wake = measured.flatMap(({ name, runs, ours, theirs }) =>
    [ours, theirs].map((side) => {
      const { median, min, max } = spreadOf((runs.get(side) ?? []).map((run) => run.wake.p99))
      const bar = { label: `${name}: ${TITLES[side]}`, value: median, min, max, ours: side === ours }
      return side === ours ? { ...bar, target: WAKE_TARGET_MS } : bar
    }),
  )
  writePicture(
    pictureOf('waiters'),
    `${figure(HELD_REQUESTS)} callers waiting at once`,
    'Dashed: the target.',
    [
      { title: 'Memory of a waiter, Parley ÷ bare', unit: '×', bars: memory },
      { title: 'From the answer of the model to the caller, p99', unit: ' ms', bars: wake },
    ],
  )
}
