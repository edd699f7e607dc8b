/** Reports the benchmark `real`: prints a table for each cell and the ratios with their targets, and stores the results. */
import type { StoreName } from '../harness/callback-database.ts'
import type { Run } from '../harness/load-run.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { PROMPT_BYTES } from '../load/prompts.ts'
import type { RealSide } from './real-sides.ts'

export interface Cell {
  readonly store: StoreName
  readonly delayMs: number
  readonly callers: number
}

export interface MeasuredCell {
  readonly cell: Cell
  readonly runs: ReadonlyMap<RealSide, readonly Run[]>
  readonly idleBytes: ReadonlyMap<RealSide, number>
}

const TITLES: Readonly<Record<RealSide, string>> = {
  this: 'Parley',
  v1: "Parley, with OpenAI's client",
  other: 'the other clone',
  bare: 'bare proxy, not durable',
  combined: 'BullMQ, Redis, Portkey, undici',
}
const RATE_OVER_BARE = 0.9
const CPU_OVER_BARE: Readonly<Record<StoreName, number>> = { sqlite: 1.6, postgres: 2.3 }
const CPU_OVER_COMBINED = 0.28
const WRITTEN = 1

export function nameOf({ store, delayMs, callers }: Cell): string {
  return `${store}, model at ${delayMs} ms, ${callers} callers`
}

const rate = ({ result }: Run) => result.perSecond
const cpu = ({ sideCpuUs }: Run) => sideCpuUs
const written = ({ disk }: Run) => disk.writtenBytes / PROMPT_BYTES

function figuresOf({ cell, idleBytes }: MeasuredCell, side: RealSide): Record<string, (run: Run) => number> {
  const isParley = side === 'this' || side === 'v1' || side === 'other'
  const onPostgres = isParley && cell.store === 'postgres'
  const part = (at: number) => (run: Run) =>
    onPostgres ? (run.processesCpuUs[at] ?? Number.NaN) : Number.NaN
  return {
    'a second': rate,
    'CPU us': cpu,
    'of nodes': part(0),
    'of Postgres': part(1),
    'p50 ms': ({ result }) => result.latencies.p50,
    'added at p99, ms': ({ result }) => result.latencies.p99 - cell.delayMs,
    'KiB a caller': ({ rssBytes }) => (rssBytes - (idleBytes.get(side) ?? 0)) / 1024 / cell.callers,
    'written a byte': written,
    syncs: ({ disk }) => disk.syncs,
    // Retries and answers include those of the warm-up.
    'retries %': ({ result }) => ((result.retries ?? 0) * 100) / result.answers,
    'gen. %': ({ generatorBusy }) => generatorBusy * 100,
    'mock %': ({ modelBusy }) => modelBusy * 100,
  }
}

interface Ratio {
  readonly name: string
  readonly value: Spread
  readonly target: string
}

function ratiosOf({ cell, runs }: MeasuredCell): Ratio[] {
  const ours = runs.get('this')
  if (ours === undefined) return []
  const over = (side: RealSide, what: string, of: (run: Run) => number, target: string): Ratio[] => {
    const theirs = runs.get(side)
    if (theirs === undefined) return []
    return [{ name: `${what} ÷ ${TITLES[side]}`, value: ratios(ours, theirs, of), target }]
  }
  return [
    ...over('bare', 'rate', rate, `≥ ${RATE_OVER_BARE}`),
    ...over('bare', 'CPU', cpu, `≤ ${CPU_OVER_BARE[cell.store]}`),
    ...over('combined', 'rate', rate, ''),
    ...over('combined', 'CPU', cpu, `≤ ${CPU_OVER_COMBINED}`),
    ...over('other', 'rate', rate, ''),
    ...over('other', 'CPU', cpu, ''),
    { name: 'bytes written ÷ bytes of prompts', value: spreadOf(ours.map(written)), target: `≤ ${WRITTEN}` },
  ]
}

export function reportCell(measured: MeasuredCell): string {
  const sides = [...measured.runs.keys()]
  const rows = sides.map((side) => {
    const figures = Object.values(figuresOf(measured, side))
    const middle = (of: (run: Run) => number) =>
      figure(spreadOf((measured.runs.get(side) ?? []).map(of)).median)
    return [TITLES[side], ...figures.map(middle)]
  })
  const compared = ratiosOf(measured).map(({ name, value, target }) => [name, spread(value), target])
  const head = [nameOf(measured.cell), ...Object.keys(figuresOf(measured, 'this'))]
  return `${table(head, rows)}\n\n${table(['ratio', 'median (range)', 'target'], compared)}\n`
}

/** Each cell has its own name in the results, because a run may measure only some cells. */
export function keepCell(measured: MeasuredCell, rounds: number, compressed: number): void {
  const { store, delayMs, callers } = measured.cell
  const sides = [...measured.runs].map(([side, runs]) => {
    const figures = Object.entries(figuresOf(measured, side))
    return [TITLES[side], Object.fromEntries(figures.map(([name, of]) => [name, spreadOf(runs.map(of))]))]
  })
  const compared = ratiosOf(measured).map(({ name, value, target }) => [name, { ...value, target }])
  keepResults(`real-${store}-${delayMs}-${callers}`, rounds, {
    sides: Object.fromEntries(sides),
    ratios: Object.fromEntries(compared),
    prompts_compressed_to: compressed,
  })
}

export function drawCells(cells: readonly MeasuredCell[]): void {
  const panel = (title: string, of: (run: Run) => number, target: (store: StoreName) => number) => ({
    title,
    unit: '×',
    bars: cells.flatMap(({ cell, runs }) => {
      const [ours, bare] = [runs.get('this'), runs.get('bare')]
      if (ours === undefined || bare === undefined) return []
      const { median: value, min, max } = ratios(ours, bare, of)
      return [{ label: nameOf(cell), value, min, max, ours: true, target: target(cell.store) }]
    }),
  })
  const note = 'Parley ÷ bare proxy: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('real'), 'Prompts of 10 KB with keys', note, [
    panel('Rate', rate, () => RATE_OVER_BARE),
    panel('CPU time, with Postgres', cpu, (store) => CPU_OVER_BARE[store]),
  ])
}
