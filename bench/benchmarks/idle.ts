/** Measures which share of a core an idle server uses on each store, in windows of a few seconds. */
import { LiveSides } from '../harness/live-sides.ts'
import type { Rig } from '../harness/load-run.ts'
import { startPostgresSide } from '../harness/postgres-sides.ts'
import { cpuUsOfThreads } from '../harness/process-figures.ts'
import { type Spread, spreadOf } from '../harness/rounds.ts'
import { type Side, startSide } from '../harness/sides.ts'

const BYTES = 1024
const LOAD = { connections: 64, warmUpMs: 0, measureMs: 3000, perSecond: 500 }
/** Within ten seconds after a load, V8 collects all garbage once. That collection still belongs to the load. */
export const IDLE_AFTER_MS = 12_000
const WINDOW_MS = 4000

type Store = 'SQLite' | 'Postgres'
export const STORES: readonly Store[] = ['SQLite', 'Postgres']

/** The shares are of one core. The CPU time of Postgres itself does not count. */
export type Idle = Readonly<Record<Store, Spread>>

export async function idleServers(rig: Rig, windows: number): Promise<Idle> {
  await rig.model.ask({ kind: 'delay', ms: 0 }, 'delayed')
  const shape = { modelPort: rig.modelPort, bytes: BYTES, keyed: true }
  const pids = new Map<Store, number>()
  const start = async (store: Store): Promise<Side> => {
    const side =
      store === 'SQLite'
        ? await startSide('parley', { ...shape, connections: 64 })
        : await startPostgresSide('parley', shape)
    pids.set(store, side.pid)
    return side
  }
  const sides = await LiveSides.start(rig, STORES, start, LOAD)
  await pass(IDLE_AFTER_MS)
  const shares: Record<Store, number[]> = { SQLite: [], Postgres: [] }
  for (let window = 0; window < windows; window++) {
    const read = () => STORES.map((store) => cpuUsOfThreads(pids.get(store) ?? 0))
    const [from, fromMs] = [read(), performance.now()]
    await pass(WINDOW_MS)
    const [to, toMs] = [read(), performance.now()]
    STORES.forEach((store, at) => {
      shares[store].push(((to[at] ?? 0) - (from[at] ?? 0)) / 1000 / (toMs - fromMs))
    })
  }
  await sides.finish()
  return { SQLite: spreadOf(shares.SQLite), Postgres: spreadOf(shares.Postgres) }
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
