/** Checks that a server that is killed during a run loses nothing that it promised a caller. */
import { DEFAULTS } from '../../src/config/settings.ts'
import { type CallbackDatabase, openCallbackDatabase, type StoreName } from '../harness/callback-database.ts'
import { assertThat } from '../harness/invariants.ts'
import { startRig } from '../harness/load-run.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { batchBody, jobBody } from '../load/bodies.ts'
import type { RunResult } from '../load/generator.ts'

const CONNECTIONS = 32
const DELAY_MS = 20
const KILL_AFTER_MS = 2500
/**
 * A restarted server could complete the jobs of the open connections itself, so more than those must be completed before the
 * kill.
 */
const COMPLETED_BEFORE = 200
const SETTLED_WITHIN_MS = 60_000

/**
 * Kills the server twice: under single creates, and under batches, whose callers have job IDs before the jobs run. Throws
 * `InvariantBroken` if a job was lost or done twice.
 */
export async function losesNothing(store: StoreName): Promise<string> {
  const rig = await startRig({})
  const database = await openCallbackDatabase(store)
  await rig.model.ask({ kind: 'delay', ms: DELAY_MS }, 'delayed')
  const start = () =>
    database.start({ modelPort: rig.modelPort, concurrency: DEFAULTS.callbacks.concurrency })
  const promised: string[] = []
  for (const kind of ['single', 'batch'] as const) {
    const parley = await start()
    const target = kind === 'single' ? parley.single(jobBody(1024)) : parley.batch(batchBody(30, 1024))
    const ended = rig.generator.hear<RunResult>('result')
    rig.generator.tell({
      kind: 'run',
      target,
      connections: kind === 'single' ? CONNECTIONS : 4,
      warmUpMs: 0,
      measureMs: KILL_AFTER_MS + SETTLED_WITHIN_MS,
      mayBreak: true,
    })
    await new Promise((resolve) => setTimeout(resolve, KILL_AFTER_MS))
    const completed = () => parley.sumOf('parley_jobs_total', 'outcome="completed"')
    await waitForCount(completed, COMPLETED_BEFORE, SETTLED_WITHIN_MS, parley.child, 'jobs completed')
    await parley.child.kill()
    const { jobIds, failures } = await ended
    assertThat(failures.length === 0, `wrong answers before the kill, such as: ${failures[0]}`)
    promised.push(...jobIds)
  }
  assertThat(promised.length > 0, 'nothing was answered before the kills')
  const open = await database.openJobs()
  const parley = await start()
  await allSettled(database)
  await parley.child.stop()
  const jobs = await database.checkJobs(promised, null)
  await database.remove()
  await rig.stop()
  return `Killed twice in mid-run on ${store}: ${promised.length} ids had been given, all are completed exactly once; ${open} jobs were open at the last kill and ran after it; ${jobs} jobs in all.`
}

async function allSettled(database: CallbackDatabase): Promise<void> {
  const untilMs = performance.now() + SETTLED_WITHIN_MS
  for (let open = await database.openJobs(); open > 0; open = await database.openJobs()) {
    assertThat(performance.now() < untilMs, `${open} jobs did not end after the restart`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
