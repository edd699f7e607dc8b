/**
 * Tests that jobs that were running during crashes do not fail because of that and soon run again, and that only a job that
 * kills its process fails.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Received, reply } from '../model-server.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { type Database, onBothStores } from './both-stores.ts'
import { idsOf, isFinal } from './caller.ts'
import { startServer } from './started-server.ts'

/** The long form has as many jobs, and as long ones, as a busy installation. */
const [BATCHES, JOB_MS] = LONG ? [32, 10_000] : [4, 300]
/** The long form promises that 256 jobs of 10 s are done five minutes after the last kill. */
const WITHIN_MS = 300_000
const BATCH = 8
/** After the last crash, the jobs may take this many times as long as one of them. */
const MOST_ROUNDS = 30
/** On Postgres, a job fails because of crashes only when its node has been absent for ten leases, so the lease is short. */
const LEASE_S = 3
const KILLS_OF_WAITING = LONG ? 5 : 3

const contents = (count: number) => Array.from({ length: count }, (_, index) => `job ${index}`)
const isPoison = ({ text }: Received) => text.includes('poison')

async function startStage(t: TestContext, database: Database, maxConcurrency: number, jobs = {}) {
  const upstreams = { openai: { max_concurrency: maxConcurrency, api_key_env: null } }
  const settings = { upstreams, jobs: { lease_seconds: LEASE_S, ...jobs } }
  const { models, place, server: first, key } = await startServer(t, { settings, ...database })
  let server = first
  const end = async (id: string) => {
    const caller = server.caller(key)
    return (await eventually(() => caller.read(id), isFinal, { withinMs: WITHIN_MS })).body.data
  }
  const assertCompleted = async (ids: readonly string[]) => {
    for (const id of ids) assert.equal((await end(id))?.status, 'completed')
  }
  return {
    ...{ models, end, assertCompleted },
    async queue(jobs: readonly string[]): Promise<string[]> {
      const ids: string[] = []
      for (let from = 0; from < jobs.length; from += BATCH) {
        ids.push(...idsOf(await server.caller(key).batch(jobs.slice(from, from + BATCH))))
      }
      return ids
    },
    /** @param between called while no server runs */
    async crash(between = () => {}): Promise<void> {
      await server.crash()
      between()
      server = await place.start()
    },
    async assertCompletedSoon(ids: readonly string[]): Promise<void> {
      const startedMs = performance.now()
      await assertCompleted(ids)
      const rounds = (performance.now() - startedMs) / JOB_MS
      assert.ok(rounds < MOST_ROUNDS, `${rounds} times the time of a job`)
    },
  }
}

/** On SQLite, the jobs of the next test do the same, and one of them kills the process. */
test('jobs that ran while the process was killed twice complete soon after, on Postgres', async (t) => {
  const stage = await startStage(t, { databaseUrl: await freshRealDatabase(t) }, 1000)
  const { models } = stage
  models.script = () => reply.after(JOB_MS, reply.text('done'))
  const ids = await stage.queue(contents(BATCHES * BATCH))
  for (let kills = 0; kills < 2; kills++) {
    await models.received(models.requests.length + 1)
    await stage.crash()
  }
  await stage.assertCompletedSoon(ids)
})

async function oneKillsItsProcess(t: TestContext, database: Database): Promise<void> {
  const stage = await startStage(t, database, 1000)
  let arrived = Promise.withResolvers<void>()
  stage.models.script = (request) => {
    if (!isPoison(request)) return reply.after(JOB_MS, reply.text('done'))
    arrived.resolve()
    return () => {}
  }
  const jobs = contents(BATCHES * BATCH)
  jobs[jobs.length - 3] = 'poison'
  const ids = await stage.queue(jobs)
  const poison = ids[jobs.indexOf('poison')] ?? ''
  let crashes = 0
  for (;;) {
    const ended = await Promise.race([arrived.promise.then(() => null), stage.end(poison)])
    if (ended !== null) break
    arrived = Promise.withResolvers()
    await stage.crash()
    crashes += 1
  }
  assert.ok(crashes >= 3 && crashes <= 8, `${crashes} crashes`)
  const failed = await stage.end(poison)
  assert.deepEqual([failed?.status, failed?.error?.code], ['failed', 'internal_error'])
  await stage.assertCompletedSoon(ids.filter((one) => one !== poison))
}

const title = 'one that kills its process among jobs that run fails, and all others complete'
test(`${title}, on SQLite`, (t) => oneKillsItsProcess(t, {}))
/** On Postgres, each crash takes a lease, and the last one ten leases. */
test(`${title}, on Postgres`, { skip: !LONG && 'takes a minute' }, async (t) =>
  oneKillsItsProcess(t, { databaseUrl: await freshRealDatabase(t) }),
)

onBothStores(
  (store) =>
    `jobs that wait for a slot at a model server do not fail, however often the process is killed, on ${store}`,
  async (t, database) => {
    const stage = await startStage(t, database, 1, { max_attempts: KILLS_OF_WAITING })
    const { models } = stage
    /**
     * Counts how often the call of each job stalled. A job that ran alone in all crashes would fail, so it is answered before.
     */
    const stalls = new Map<string, number>()
    let isAnswered = false
    models.script = ({ text }) => {
      const [name = ''] = /job \d+/.exec(text) ?? []
      const count = stalls.get(name) ?? 0
      if (isAnswered || count === KILLS_OF_WAITING - 1) {
        isAnswered = false
        return undefined
      }
      stalls.set(name, count + 1)
      return reply.stall()
    }
    const ids = await stage.queue(contents(BATCH))
    await models.received(1)
    for (let kills = 1; kills <= KILLS_OF_WAITING; kills++) {
      const isLater = kills > 1
      let before = 0
      await stage.crash(() => {
        isAnswered = isLater
        before = models.requests.length
      })
      await models.received(before + (isLater ? 2 : 1))
    }
    models.script = () => undefined
    models.release()
    await stage.assertCompleted(ids)
  },
  { real: true },
)
