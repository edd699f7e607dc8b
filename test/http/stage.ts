/**
 * What most HTTP tests stand on: a Parley, the model server that it asks, and time that the test moves.
 *
 *     const { parley, models, clock } = await startStage(t)
 *     models.script = () => reply.stall()
 */
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
  /** The stage of an earlier Parley, to start another one on its database with its model server and clock. */
  readonly after?: Stage
}

const DRAIN_MS = 20_000

/** Time stands still, so reads are not limited unless the test sets a limit: polling would reach it. */
const UNLIMITED = { reads_per_minute: 1_000_000 }
export const UNLIMITED_READS = {
  user_free: UNLIMITED,
  user_go: UNLIMITED,
  user_pro: UNLIMITED,
  user_max: UNLIMITED,
}

/** Everything ends with the test, or with the file if `t` is the `after` of node:test. */
export async function startStage(t: Lifetime, options: StageOptions = {}): Promise<Stage> {
  const models = options.after?.models ?? (await startModelServer())
  if (options.script) models.script = options.script
  const clock = options.after?.clock ?? new FakeClock()
  // Runs before Parley's own stop, which waits for running jobs.
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
    ...(options.after && { folder: options.after.parley.folder }),
  })
  // Runs after Parley's stop, or if it did not start, so that no listening server keeps the process alive.
  const parley = await starting.finally(() => t.after(() => models.close()))
  return { parley, models, clock }
}

/** Stops Parley although the model server stalls: running jobs are released. */
export async function stopAtOnce({ parley, clock }: Stage): Promise<void> {
  const stopped = parley.stop()
  clock.advance(DRAIN_MS)
  await stopped
}

/** Resolves when this many single creates wait. */
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
