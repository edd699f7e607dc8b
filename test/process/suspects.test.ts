/**
 * Tests that jobs that were running during crashes do not fail because of that and soon run again, and that only a job that
 * kills its process fails.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Received, reply, startModelServer } from '../model-server.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { type Caller, idsOf, isFinal } from './caller.ts'
import { installation, type Server } from './server-process.ts'

const timeout = 600_000
/** The long form has as many jobs, and as long ones, as a busy installation. */
const [BATCHES, JOB_MS] = LONG ? [32, 10_000] : [4, 300]
/** The promise of the long form in milliseconds: 256 jobs of 10 s are done five minutes after the last kill. */
const WITHIN_MS = 300_000
const BATCH = 8

/** On Postgres, a job fails because of crashes only when its node has been absent for ten leases, so the lease is short. */
const LEASE_S = 3
const STORES = ['SQLite', 'Postgres'] as const
type StoreName = (typeof STORES)[number]

async function stage(t: TestContext, store: StoreName, maxConcurrency: number, settings = {}) {
  const models = await startModelServer({}, t)
  const upstreams = { openai: { max_concurrency: maxConcurrency, api_key_env: null } }
  const place = await installation(t, {
    upstream: models.baseUrl,
    settings: { upstreams, jobs: { lease_seconds: LEASE_S, ...settings } },
    ...(store === 'Postgres' && { databaseUrl: await freshRealDatabase(t) }),
  })
  return { models, place }
}

const contents = (count: number) => Array.from({ length: count }, (_, index) => `job ${index}`)

/** Stores jobs in batches, for which no request waits. */
async function queue(server: Server, key: string, jobs: readonly string[]): Promise<string[]> {
  const ids: string[] = []
  for (let from = 0; from < jobs.length; from += BATCH) {
    ids.push(...idsOf(await server.caller(key).batch(jobs.slice(from, from + BATCH))))
  }
  return ids
}

/** Returns how the job ends. */
async function end(caller: Caller, id: string) {
  return (await eventually(() => caller.read(id), isFinal, { withinMs: WITHIN_MS })).body.data
}

for (const store of STORES) {
  /** On Postgres, each crash takes a lease, and the last one ten leases. */
  const isShort = store === 'Postgres' && !LONG && 'takes a minute'

  test(`jobs that ran while the process was killed twice complete soon after, on ${store}`, {
    timeout,
  }, async (t) => {
    const { models, place } = await stage(t, store, 1000)
    models.script = () => reply.after(JOB_MS, reply.text('done'))
    let server = await place.start()
    const key = await server.firstKey()
    const ids = await queue(server, key, contents(BATCHES * BATCH))
    for (let kills = 0; kills < 2; kills++) {
      await models.received(models.requests.length + 1)
      await server.crash()
      server = await place.start()
    }
    const startedMs = performance.now()
    const caller = server.caller(key)
    for (const id of ids) assert.equal((await end(caller, id))?.status, 'completed')
    const rounds = (performance.now() - startedMs) / JOB_MS
    assert.ok(rounds < 30, `${rounds} times the time of a job`)
  })

  test(`one that kills its process among them fails, and all others complete, on ${store}`, {
    timeout,
    skip: isShort,
  }, async (t) => {
    const { models, place } = await stage(t, store, 1000)
    const isPoison = ({ text }: Received) => text.includes('poison')
    let arrived = Promise.withResolvers<void>()
    models.script = (request) => {
      if (!isPoison(request)) return reply.after(JOB_MS, reply.text('done'))
      arrived.resolve()
      return () => {}
    }
    let server = await place.start()
    const key = await server.firstKey()
    const jobs = contents(BATCHES * BATCH)
    jobs[jobs.length - 3] = 'poison'
    const ids = await queue(server, key, jobs)
    const poison = ids[jobs.indexOf('poison')] ?? ''
    let crashes = 0
    for (;;) {
      const ended = await Promise.race([arrived.promise.then(() => null), end(server.caller(key), poison)])
      if (ended !== null) break
      arrived = Promise.withResolvers()
      await server.crash()
      crashes += 1
      server = await place.start()
    }
    assert.ok(crashes >= 3 && crashes <= 8, `${crashes} crashes`)
    const caller = server.caller(key)
    const failed = await end(caller, poison)
    assert.deepEqual([failed?.status, failed?.error?.code], ['failed', 'internal_error'])
    for (const id of ids.filter((one) => one !== poison)) {
      assert.equal((await end(caller, id))?.status, 'completed')
    }
  })

  test(`jobs that wait for a slot at a model server do not fail, however often the process is killed, on ${store}`, {
    timeout,
  }, async (t) => {
    const KILLS = 5
    const { models, place } = await stage(t, store, 1, { max_attempts: KILLS })
    /**
     * How often the call of each job stalled. A job that was running alone in all crashes would fail, so it is answered before.
     */
    const stalls = new Map<string, number>()
    let isAnswered = false
    models.script = ({ text }) => {
      const [name = ''] = /job \d+/.exec(text) ?? []
      const count = stalls.get(name) ?? 0
      if (isAnswered || count === KILLS - 1) {
        isAnswered = false
        return undefined
      }
      stalls.set(name, count + 1)
      return reply.stall()
    }
    let server = await place.start()
    const key = await server.firstKey()
    const ids = await queue(server, key, contents(BATCH))
    await models.received(1)
    for (let kills = 1; kills <= KILLS; kills++) {
      await server.crash()
      // From the second kill on, one job is answered after each kill.
      isAnswered = kills > 1
      const before = models.requests.length
      server = await place.start()
      await models.received(before + (kills > 1 ? 2 : 1))
    }
    models.script = () => undefined
    models.release()
    const caller = server.caller(key)
    for (const id of ids) assert.equal((await end(caller, id))?.status, 'completed')
  })
}
