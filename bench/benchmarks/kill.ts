/**
 * The invariant that matters more than any throughput: a server that is killed during a run loses nothing that it promised a
 * caller.
 */
import { assertEachSettledOnce, assertThat, unsettled } from '../harness/invariants.ts'
import { startRig } from '../harness/load-run.ts'
import { DataFolder, Parley } from '../harness/parley.ts'
import { batchBody, jobBody } from '../load/bodies.ts'
import type { RunResult } from '../load/generator.ts'

const CONNECTIONS = 32
const DELAY_MS = 20
const KILL_AFTER_MS = 2500
const SETTLED_WITHIN_MS = 60_000

/**
 * Kills the server under single creates, then under batches, whose IDs are promised before the jobs run. Returns a summary;
 * throws `InvariantBroken` if anything was lost or done twice.
 */
export async function losesNothing(): Promise<string> {
  const rig = await startRig({})
  const dataFolder = new DataFolder()
  await rig.model.ask({ kind: 'delay', ms: DELAY_MS }, 'delayed')
  const promised: string[] = []
  for (const kind of ['single', 'batch'] as const) {
    const parley = await Parley.start({ modelPort: rig.modelPort }, dataFolder)
    const target = kind === 'single' ? parley.single(jobBody(1024)) : parley.batch(batchBody(30, 1024))
    const ended = rig.generator.hear<RunResult>('result')
    rig.generator.tell({
      kind: 'run',
      target,
      connections: kind === 'single' ? CONNECTIONS : 4,
      warmUpMs: 0,
      measureMs: KILL_AFTER_MS * 4,
      mayBreak: true,
    })
    await new Promise((resolve) => setTimeout(resolve, KILL_AFTER_MS))
    await parley.child.kill()
    const { jobIds, failures } = await ended
    assertThat(failures.length === 0, `wrong answers before the kill, such as: ${failures[0]}`)
    assertThat(jobIds.length > 0, `nothing was answered before the kill (${kind})`)
    promised.push(...jobIds)
  }
  const waiting = unsettled(dataFolder.database)
  const parley = await Parley.start({ modelPort: rig.modelPort }, dataFolder)
  await allSettled(dataFolder.database)
  await parley.child.stop()
  const jobs = assertEachSettledOnce(dataFolder.database, promised, null)
  dataFolder.remove()
  await rig.stop()
  return `Killed twice in mid-run: ${promised.length} ids had been given, all are completed exactly once; ${waiting} jobs were unsettled at the last kill and ran after it; ${jobs} jobs in all.`
}

async function allSettled(database: string): Promise<void> {
  const untilMs = performance.now() + SETTLED_WITHIN_MS
  while (unsettled(database) > 0) {
    assertThat(performance.now() < untilMs, `${unsettled(database)} jobs did not end after the restart`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
