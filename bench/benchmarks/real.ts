/**
 * Measures what users send: prompts of 10 KB of prose, with the keys and waits of the published client, to models with a
 * realistic delay, from as many callers as default settings must serve. Compares Parley on either store with a bare proxy, with
 * BullMQ, Redis, Portkey and undici combined, and with another clone of Parley.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import type { StoreName } from '../harness/callback-database.ts'
import { LiveSides } from '../harness/live-sides.ts'
import { rssBytesOf, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, portkeyMissing } from '../harness/peers.ts'
import { interleaved } from '../harness/rounds.ts'
import { checkPrompts } from '../load/prompts.ts'
import { type Cell, drawCells, keepCell, type MeasuredCell, nameOf, reportCell } from './real-report.ts'
import { type RealSide, startRealSide } from './real-sides.ts'

const CALLERS = new URL('../load/callers.ts', import.meta.url)
const STORES: readonly StoreName[] = ['sqlite', 'postgres']
export const ALL_CELLS = { stores: STORES, delaysMs: [200, 1000], callers: [512, 2000] } as const
const SIDES: readonly RealSide[] = ['this', 'v1', 'other', 'bare', 'combined']
const CHECKED_PROMPTS = 500
const WARM_UP_MS = 6000
/**
 * Before each measured time, the load runs for this many cycles, within the limits below. A cycle lasts from a request to its
 * answer.
 */
const SETTLED_AFTER_CYCLES = 1.25
const LEAST_SETTLE_MS = 500
const LONGEST_SETTLE_MS = 15_000

export const real: Benchmark = {
  name: 'real',
  about: 'prompts of 10 KB with keys, model at 200 ms and 1 s, against a bare proxy and combined systems',
  async run(options) {
    const { stores, delaysMs, callers } = options.cells
    const sides = sidesOf(options)
    const compressed = checkPrompts(CHECKED_PROMPTS)
    printLine(`zstd compresses the prompts to ${compressed.toFixed(2)} of their size (median)\n`)
    const cells: MeasuredCell[] = []
    for (const store of STORES.filter((name) => stores.includes(name))) {
      for (const delayMs of delaysMs) {
        for (const count of callers) {
          const measured = await measure({ store, delayMs, callers: count }, sides, options)
          printLine(reportCell(measured))
          keepCell(measured, options.rounds, compressed)
          cells.push(measured)
        }
      }
    }
    // A run of some cells must not replace the picture of all.
    if (Object.values(ALL_CELLS).reduce((all, { length }) => all * length, 1) === cells.length)
      drawCells(cells)
  },
}

function sidesOf({ against, cells }: BenchOptions): RealSide[] {
  const missing = [portkeyMissing(), bullmqMissing()].filter((one) => one !== null)
  for (const { peer, how } of missing) printLine(`${peer} is left out; to measure it: ${how}`)
  if (against === null) printLine('No other clone is measured; to measure one: --against CLONE')
  else if (!existsSync(join(against, 'src/main.ts'))) throw new Error(`${against} is not a clone of Parley`)
  return SIDES.filter((side) => {
    const isPossible = side === 'other' ? against !== null : side !== 'combined' || missing.length === 0
    return isPossible && (cells.sides === null || cells.sides.includes(side))
  })
}

async function measure(cell: Cell, names: readonly RealSide[], options: BenchOptions): Promise<MeasuredCell> {
  const { store, delayMs, callers } = cell
  const { against, rounds, seconds } = options
  const rig = await startRig({ generator: CALLERS })
  await rig.model.ask({ kind: 'delay', ms: delayMs }, 'delayed')
  const idleBytes = new Map<RealSide, number>()
  const start = async (name: RealSide) => {
    const side = await startRealSide(name, { store, modelPort: rig.modelPort, callers, against })
    idleBytes.set(name, rssBytesOf(side.processes))
    return side
  }
  const live = await LiveSides.start(rig, names, start, null)
  const settleMs = await warmUp(live, names, cell)
  const runs = await interleaved(names, rounds, async (name) => {
    const warmUpMs = settleMs.get(name) ?? LONGEST_SETTLE_MS
    return live.run(name, { connections: callers, warmUpMs, measureMs: seconds * 1000 })
  })
  await live.finish()
  await rig.stop()
  printLine(`measured: ${nameOf(cell)}`)
  return { cell, runs, idleBytes }
}

async function warmUp(
  live: LiveSides<RealSide>,
  names: readonly RealSide[],
  { callers, delayMs }: Cell,
): Promise<ReadonlyMap<RealSide, number>> {
  const settleMs = new Map<RealSide, number>()
  for (const name of names) {
    const load = { connections: callers, warmUpMs: WARM_UP_MS / 2 + delayMs, measureMs: WARM_UP_MS / 2 }
    const { result } = await live.run(name, load)
    const cycleMs = (callers * 1000) / result.perSecond
    const wantedMs = Math.max(LEAST_SETTLE_MS + delayMs, cycleMs * SETTLED_AFTER_CYCLES)
    settleMs.set(name, Math.min(wantedMs, LONGEST_SETTLE_MS))
  }
  return settleMs
}
