/**
 * Measures the time from the start of the process until it accepts its first job, with an empty SQLite file and with a million
 * queued jobs.
 */
import { DatabaseSync } from 'node:sqlite'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { assertThat } from '../harness/invariants.ts'
import { type Rig, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { DataFolder, Parley } from '../harness/parley.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { batchBody } from '../load/bodies.ts'
import { fillSqlite } from './fill-by-sql.ts'

const STORED = 1_000_000
const CONTENT = 'x'.repeat(100)
const RATIO_TARGET = 1.2
const SECONDS_TARGET = 0.5

interface Measured {
  readonly listensMs: number
  readonly acceptsMs: number
}

export const start: Benchmark = {
  name: 'start',
  about: 'from the start of the process to its first accepted job, with 1,000,000 stored jobs against none',
  async run(options) {
    const rig = await startRig({})
    // No job may end, so that the queue does not shrink.
    await rig.model.ask({ kind: 'hold', timed: false }, 'holding')
    const full = new DataFolder()
    const stored = options.waiting ?? STORED
    full.key = await fillSqlite(full.database, stored, CONTENT)
    await measure(rig, full)
    const runs = await interleaved(['empty', 'full'], options.rounds, async (side) => {
      if (side === 'full') return measure(rig, full)
      const empty = new DataFolder()
      const measured = await measure(rig, empty)
      empty.remove()
      return measured
    })
    // The unmeasured start and the start in each round added one job each.
    assertStored(full, stored + 1 + options.rounds)
    full.remove()
    await rig.stop()
    report(runs.get('empty') ?? [], runs.get('full') ?? [], stored, options)
  },
}

async function measure(rig: Rig, dataFolder: DataFolder): Promise<Measured> {
  const startedMs = performance.now()
  const parley = await Parley.start({ modelPort: rig.modelPort, concurrency: 1 }, dataFolder)
  const { port, path, headers } = parley.batch('')
  const body = batchBody(1, 1024)
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body })
  const acceptsMs = performance.now() - startedMs
  assertThat(answer.status === 202, `the first batch was answered with ${answer.status}`)
  await parley.child.kill()
  return { listensMs: parley.startMs, acceptsMs }
}

function assertStored({ database }: DataFolder, jobs: number): void {
  const db = new DatabaseSync(database, { readOnly: true })
  const found = Number(db.prepare('select count(*) as n from jobs').get()?.n)
  db.close()
  assertThat(found === jobs, `${jobs} jobs were stored or accepted, and ${found} are stored`)
}

function report(
  empty: readonly Measured[],
  full: readonly Measured[],
  stored: number,
  { rounds }: BenchOptions,
): void {
  const accepts = ({ acceptsMs }: Measured) => acceptsMs
  const row = (title: string, runs: readonly Measured[]) => [
    title,
    figure(spreadOf(runs.map(({ listensMs }) => listensMs)).median),
    figure(spreadOf(runs.map(accepts)).median),
  ]
  const head = ['stored jobs', 'listens ms', 'first job ms']
  printLine(table(head, [row('none', empty), row(figure(stored), full)]))
  const ratio = ratios(full, empty, accepts)
  const seconds = spreadOf(full.map((measured) => accepts(measured) / 1000))
  printLine(
    `${figure(stored)} stored ÷ none: ${spread(ratio)} (target ${RATIO_TARGET} or less); ${spread(seconds)} s (target ${SECONDS_TARGET} or less)`,
  )
  keepResults('start', rounds, {
    stored_jobs: stored,
    full_over_empty: ratio,
    full_seconds: seconds,
    targets: { full_over_empty: RATIO_TARGET, full_seconds: SECONDS_TARGET },
  })
  const bar = (label: string, { median, min, max }: typeof ratio, target: number) => {
    return { label, value: median, min, max, ours: true, target }
  }
  const note = 'Median, range over the rounds, target (dashed).'
  writePicture(pictureOf('start'), 'From the start of the process to its first accepted job', note, [
    { title: `${figure(stored)} stored jobs ÷ none`, unit: '×', bars: [bar('time', ratio, RATIO_TARGET)] },
    {
      title: `With ${figure(stored)} stored jobs`,
      unit: ' s',
      bars: [bar('seconds', seconds, SECONDS_TARGET)],
    },
  ])
}
