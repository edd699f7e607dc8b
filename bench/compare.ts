/**
 * Compares this clone with another one, such as an earlier commit with its packages installed. Both servers run and do the same
 * work in turns. A ratio of CPU times above 1 means that this clone needs more.
 *
 *     node bench/compare.ts OTHER_CLONE [--rounds 12] [--seconds 3] [--warm-up 9] [--only sync-key,drain]
 *                           [--bytes 1024] [--connections 64] [--delay 0]
 *
 * `sync` and `sync-key` are single creates on SQLite, without and with idempotency keys. `sync-postgres` and
 * `sync-key-postgres` are the same on Postgres. The options of the second line apply to these four. `drain` and `callbacks` are
 * batches on SQLite.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type BatchName, CompareBatches } from './harness/compare-batches.ts'
import { LiveSides } from './harness/live-sides.ts'
import { type Run, startRig } from './harness/load-run.ts'
import { printLine } from './harness/output.ts'
import { startPostgresSide } from './harness/postgres-sides.ts'
import { interleaved, ratios, spreadOf } from './harness/rounds.ts'
import { startSide } from './harness/sides.ts'
import { figure, spread, table } from './harness/table.ts'

type Side = 'this' | 'other'

const SIDES: readonly Side[] = ['this', 'other']
const SINGLE = {
  sync: { postgres: false, keyed: false },
  'sync-key': { postgres: false, keyed: true },
  'sync-postgres': { postgres: true, keyed: false },
  'sync-key-postgres': { postgres: true, keyed: true },
} as const
type SingleName = keyof typeof SINGLE
const BATCHES: readonly BatchName[] = ['drain', 'callbacks']
const NAMES = [...Object.keys(SINGLE), ...BATCHES]
const CONNECTIONS = 64
const SETTLE_MS = 200

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '9' },
    only: { type: 'string', default: NAMES.join() },
    bytes: { type: 'string', default: '1024' },
    connections: { type: 'string', default: String(CONNECTIONS) },
    delay: { type: 'string', default: '0' },
  },
})
const [otherClone] = positionals
if (otherClone === undefined) throw new Error('Pass the folder of the clone to compare with.')
const otherMain = resolve(otherClone, 'src/main.ts')
const names = values.only.split(',')
const unknown = names.filter((name) => !NAMES.includes(name))
if (unknown.length > 0) throw new Error(`There is no case ${unknown.join()}; there are ${NAMES.join()}.`)
const rounds = Number(values.rounds)
const measureMs = Number(values.seconds) * 1000
const warmUpMs = Number(values['warm-up']) * 1000
const bytes = Number(values.bytes)
const connections = Number(values.connections)

const rig = await startRig({})
await rig.model.ask({ kind: 'delay', ms: Number(values.delay) }, 'delayed')

const FIGURES = {
  'a second': ({ result }: Run) => result.perSecond,
  'p99 ms': ({ result }: Run) => result.latencies.p99,
  'node us': ({ processesCpuUs: [node = Number.NaN] }: Run) => node,
  'Postgres us': ({ processesCpuUs: [, postgres = Number.NaN] }: Run) => postgres,
  'CPU us': ({ sideCpuUs }: Run) => sideCpuUs,
  'WAL bytes': ({ disk }: Run) => disk.walBytes,
  'written bytes': ({ disk }: Run) => disk.writtenBytes,
  syncs: ({ disk }: Run) => disk.syncs,
} as const

async function compareSingle(name: SingleName): Promise<string[][]> {
  const { postgres, keyed } = SINGLE[name]
  const start = (side: Side) => {
    const clone = side === 'other' && { main: otherMain }
    const shape = { modelPort: rig.modelPort, bytes, keyed, ...clone }
    return postgres ? startPostgresSide('parley', shape) : startSide('parley', { ...shape, connections })
  }
  const warmUp = { connections, warmUpMs: 0, measureMs: warmUpMs }
  const live = await LiveSides.start(rig, SIDES, start, warmUp)
  const runs = await interleaved(SIDES, rounds, (side) =>
    live.run(side, { connections, warmUpMs: SETTLE_MS, measureMs }),
  )
  await live.finish()
  const rows = SIDES.map((side) => {
    const middle = (of: (run: Run) => number) => figure(spreadOf((runs.get(side) ?? []).map(of)).median)
    return [`${name}, ${side}`, ...Object.values(FIGURES).map(middle)]
  })
  const [ours = [], theirs = []] = SIDES.map((side) => runs.get(side))
  const over = (of: (run: Run) => number) => spread(ratios(ours, theirs, of))
  printLine(
    `${name}, this / other: rate ${over(FIGURES['a second'])}, CPU ${over(FIGURES['CPU us'])}, nodes ${over(FIGURES['node us'])}${postgres ? `, Postgres ${over(FIGURES['Postgres us'])}, WAL ${over(FIGURES['WAL bytes'])}` : ''}`,
  )
  return rows
}

async function compareBatches(name: BatchName, batches: CompareBatches<Side>): Promise<string[]> {
  const measure = (side: Side, ms: number) => batches.cpuUs(side, name, ms)
  for (const side of SIDES) await measure(side, warmUpMs)
  const measured = await interleaved(SIDES, rounds, (side) => measure(side, measureMs))
  const [ours = [], theirs = []] = SIDES.map((side) => measured.get(side))
  const us = (of: readonly number[]) => figure(spreadOf(of).median)
  const row = [name, us(ours), us(theirs), spread(ratios(ours, theirs, (each) => each))]
  printLine(row.join('  '))
  return row
}

const isSingle = (name: string): name is SingleName => name in SINGLE
const single: string[][] = []
for (const name of names.filter(isSingle)) single.push(...(await compareSingle(name)))
if (single.length > 0) printLine(`\n${table(['a job', ...Object.keys(FIGURES)], single)}\n`)

const ofBatches = BATCHES.filter((name) => names.includes(name))
if (ofBatches.length > 0) {
  const mains = new Map<Side, string | null>(SIDES.map((side) => [side, side === 'other' ? otherMain : null]))
  const batches = await CompareBatches.start(rig, mains)
  const rows: string[][] = []
  for (const name of ofBatches) rows.push(await compareBatches(name, batches))
  printLine(`\n${table(['CPU time of a job', 'this (us)', 'other (us)', 'this / other'], rows)}`)
  await batches.stop()
}
await rig.stop()
