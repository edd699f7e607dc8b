/**
 * Measures single creates of 1 KB that wait for their answer. Compares Parley on SQLite with a bare proxy and with peers. All
 * requests have idempotency keys, except those of one side.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { LiveSides } from '../harness/live-sides.ts'
import { type Run, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing, type Missing, portkeyMissing } from '../harness/peers.ts'
import { interleaved } from '../harness/rounds.ts'
import { startSide } from '../harness/sides.ts'
import { keepSync, reportSync } from './sync-report.ts'
import { type Condition, type Measured, nameOf, SIDES, type SyncSide } from './sync-sides.ts'

const BYTES = 1024
const WARM_UP_MS = 5000
const SETTLE_MS = 300

const CONDITIONS: readonly Condition[] = [
  { delayMs: 0, connections: 64, peers: true },
  { delayMs: 0, connections: 1, peers: false },
  { delayMs: 20, connections: 64, peers: false },
  { delayMs: 20, connections: 1, peers: false },
]

export const sync: Benchmark = {
  name: 'sync',
  about: 'single creates of 1 KB, against a bare proxy, Portkey and BullMQ',
  async run(options) {
    const missing = [portkeyMissing(), bullmqMissing()].filter((one) => one !== null)
    for (const { peer, how } of missing) printLine(`${peer} is left out; to measure it: ${how}`)
    const names = Object.keys(SIDES) as SyncSide[]
    const present = names.filter((name) => !isMissing(name, missing))
    const rig = await startRig({})
    const warmUp = { connections: 64, warmUpMs: 0, measureMs: WARM_UP_MS }
    const start = (name: SyncSide) => {
      return startSide(SIDES[name].kind, {
        modelPort: rig.modelPort,
        bytes: BYTES,
        connections: 256,
        keyed: name !== 'parley without key',
      })
    }
    const sides = await LiveSides.start(rig, present, start, warmUp)
    const measured: Measured[] = []
    for (const condition of CONDITIONS) {
      await rig.model.ask({ kind: 'delay', ms: condition.delayMs }, 'delayed')
      const compared = present.filter((name) => condition.peers || !SIDES[name].peer)
      measured.push({ condition, runs: await measure(condition, sides, compared, options) })
      printLine(`measured: ${nameOf(condition)}`)
    }
    await sides.finish()
    await rig.stop()
    printLine()
    printLine(reportSync(measured))
    keepSync(measured, missing, options)
  },
}

function isMissing(name: SyncSide, missing: readonly Missing[]): boolean {
  return missing.some(({ peer }) => peer.toLowerCase() === name)
}

function measure(
  { connections, peers }: Condition,
  sides: LiveSides<SyncSide>,
  compared: readonly SyncSide[],
  { rounds, seconds }: BenchOptions,
): Promise<Map<SyncSide, Run[]>> {
  // Most targets belong to the condition with peers, so that condition is measured for twice as long.
  const measureMs = seconds * (peers ? 1000 : 500)
  return interleaved(compared, rounds, (name) =>
    sides.run(name, { connections, warmUpMs: SETTLE_MS, measureMs }),
  )
}
