/**
 * Starts what most HTTP tests need: a Parley, a model server, and a clock that the test advances.
 *
 *     const { parley, models, clock } = await startStage(t)
 *     models.script = () => reply.stall()
 */
import type { Role } from '../../src/config/allowed-values.ts'
import { FakeClock } from '../fake-clock.ts'
import { type ModelServerForTests, type Script, startModelServer } from '../model-server.ts'
import { type Lifetime, type Parley, startParley } from '../parley.ts'

export interface Stage {
  readonly parley: Parley
  readonly models: ModelServerForTests
  readonly clock: FakeClock
}

export interface StageOptions {
  readonly settings?: Readonly<Record<string, unknown>>
  readonly script?: Script
  readonly findsConcurrency?: boolean
  readonly role?: Role
  /** The new Parley gets the database, the model server and the clock of this stage. */
  readonly after?: Stage
}

const DRAIN_MS = 20_000

/** The clock stands still, so a test that polls would reach any limit. Reads are unlimited unless the test sets a limit. */
const UNLIMITED = { reads_per_minute: 1_000_000 }
export const UNLIMITED_READS = {
  user_free: UNLIMITED,
  user_go: UNLIMITED,
  user_pro: UNLIMITED,
  user_max: UNLIMITED,
}

/** The stage ends with the test, or with the test file if `t` is the `after` of node:test. */
export async function startStage(t: Lifetime, options: StageOptions = {}): Promise<Stage> {
  const models = options.after?.models ?? (await startModelServer())
  if (options.script) models.script = options.script
  const clock = options.after?.clock ?? new FakeClock()
  // This hook runs before Parley's own, which waits for running jobs, and lets those jobs end.
  t.after(() => {
    models.script = () => undefined
    models.release()
    void clock.timerSet((ms) => ms === DRAIN_MS).then(() => clock.advance(DRAIN_MS))
  })
  const starting = startParley(t, {
    upstream: models.baseUrl,
    clock,
    settings: { tiers: UNLIMITED_READS, ...options.settings },
    findsConcurrency: options.findsConcurrency ?? false,
    ...(options.role && { role: options.role }),
    ...(options.after && { folder: options.after.parley.folder }),
  })
  // This hook runs after Parley's own. It is set even if Parley did not start, because a listening server keeps the process
  // alive.
  const parley = await starting.finally(() => t.after(() => models.close()))
  return { parley, models, clock }
}

/** Stops the Parley, which returns running jobs to the queue instead of waiting for a model server that stalls. */
export async function stopAtOnce({ parley, clock }: Stage): Promise<void> {
  const stopped = parley.stop()
  clock.advance(DRAIN_MS)
  await stopped
}

export async function pendingResponsesAre(
  t: { signal: AbortSignal },
  parley: Parley,
  count: number,
): Promise<void> {
  for (;;) {
    const { text } = await parley.get('/metrics')
    if (text.includes(`\nparley_waiters ${count}\n`)) return
    t.signal.throwIfAborted()
  }
}
