/**
 * Tests that slow jobs of one account do not delay jobs of another account, neither at the slots of a node nor at those of an
 * upstream.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type ModelServerForTests, type Received, reply, startModelServer } from '../model-server.ts'
import { type Database, onBothStores } from './both-stores.ts'
import type { Caller } from './caller.ts'
import { gauge } from './gauge.ts'
import { installation, type Server } from './server-process.ts'

/** These jobs are more than the node has slots. */
const SLOW_JOBS = 300
const BATCH = 30
const NODE_SLOTS = 256
const SLOTS = 4
const CALLS = 120

const said = ({ body }: Received) => String(body.messages.at(-1)?.content)
const isSlow = (request: Received) => said(request).startsWith('slow')

interface SceneOptions extends Database {
  readonly maxConcurrency?: number
}

interface Scene {
  readonly models: ModelServerForTests
  readonly server: Server
  readonly many: Caller
  readonly single: Caller
}

async function scene(t: TestContext, { maxConcurrency = 1000, ...database }: SceneOptions): Promise<Scene> {
  const models = await startModelServer(
    {
      script: (request) => (isSlow(request) ? reply.stall() : undefined),
    },
    t,
  )
  const place = await installation(t, {
    upstream: models.baseUrl,
    settings: {
      upstreams: { openai: { api_key_env: null, max_concurrency: maxConcurrency } },
      tiers: { user_free: { max_batch_jobs: BATCH } },
      jobs: { drain_seconds: 0.1, concurrency: NODE_SLOTS },
    },
    ...database,
  })
  const server = await place.start({
    env: { LOG_LEVEL: 'warn', OPENAI_MAX_CONCURRENCY: String(maxConcurrency) },
  })
  const many = server.caller(await place.key('many', 'user_free'))
  const single = server.caller(await place.key('single'))
  return { models, server, many, single }
}

async function createSlow(caller: Caller, count: number): Promise<void> {
  for (let from = 0; from < count; from += BATCH) {
    const contents = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => `slow ${from + n}`)
    const { status, text } = await caller.batch(contents)
    assert.equal(status, 202, text)
  }
}

async function timed(caller: Caller, content: string): Promise<number> {
  const startedMs = performance.now()
  const { body, text } = await caller.single(content, { timeout: 30 })
  assert.equal(body.data?.status, 'completed', text)
  return performance.now() - startedMs
}

async function startsAtOnce(t: TestContext, options: SceneOptions): Promise<void> {
  const { models, many, single } = await scene(t, options)
  await timed(single, 'first')
  const idleMs = [await timed(single, 'idle 1'), await timed(single, 'idle 2'), await timed(single, 'idle 3')]
  await createSlow(many, SLOW_JOBS)
  const most = NODE_SLOTS - NODE_SLOTS / 16
  await models.received(4 + most)
  const tookMs = [await timed(single, 'busy 1'), await timed(single, 'busy 2'), await timed(single, 'busy 3')]
  t.diagnostic(`idle ${idleMs.map(Math.round)} ms, with ${SLOW_JOBS} slow jobs ${tookMs.map(Math.round)} ms`)
  assert.ok(Math.max(...tookMs) <= Math.max(...idleMs) + 1000, `it took ${tookMs} ms, idle ${idleMs} ms`)
  assert.equal(models.requests.filter(isSlow).length, most, 'the reserve stays free')
}

onBothStores(
  (store) => `${SLOW_JOBS} slow jobs of an account leave slots for others (${store})`,
  startsAtOnce,
  {
    real: true,
  },
)

test(`${CALLS} jobs at an upstream of ${SLOTS}: the call of another account comes next when a running one ends`, async (t) => {
  const { models, server, many, single } = await scene(t, { maxConcurrency: SLOTS })
  await createSlow(many, CALLS)
  await models.received(SLOTS)
  const created = single.single('single', { timeout: 30 })
  // The node claims one job in advance, so the call of that job begins when an earlier call ends.
  await gauge(server.url, 'parley_upstream_calls{upstream="openai",state="waiting"}', 2)
  models.releaseNext()
  await models.received(SLOTS + 1)
  assert.equal(models.requests.map(said)[SLOTS], 'single')
  assert.equal((await created).body.data?.status, 'completed')
})
