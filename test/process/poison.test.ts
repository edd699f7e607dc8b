/**
 * Tests that a job that crashes the process each time it runs fails after `max_attempts` crashes, and that the other jobs
 * complete.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Received, type Reply, reply, startModelServer } from '../model-server.ts'
import { idsOf } from './caller.ts'
import { installation } from './server-process.ts'

const timeout = 60_000
const MAX_ATTEMPTS = 3

/** Starts a server with `concurrency` slots, and stores the jobs `one`, `poison`, `two` and `three` as one batch. */
async function stage(t: TestContext, concurrency: number) {
  const models = await startModelServer({}, t)
  const settings = { jobs: { max_attempts: MAX_ATTEMPTS, concurrency } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  return { models, place, server: await place.start() }
}

/** Kills the server each time the job `poison` reaches the model server. `others` returns the replies to the other jobs. */
async function killAtEachPoison(
  { models, place, server: first }: Awaited<ReturnType<typeof stage>>,
  others: (deaths: number) => Reply | undefined,
) {
  const key = await first.firstKey()
  let server = first
  let ids: readonly string[] = []
  for (let deaths = 0; deaths < MAX_ATTEMPTS; deaths++) {
    const arrival = new Promise<void>((resolve) => {
      models.script = (request) => {
        if (!isPoison(request)) return others(deaths)
        resolve()
        return () => {}
      }
    })
    if (deaths === 0) ids = idsOf(await server.caller(key).batch(['one', 'poison', 'two', 'three']))
    else server = await place.start()
    await arrival
    await server.crash()
  }
  models.script = () => undefined
  const caller = (await place.start()).caller(key)
  const [one = '', poison = '', two = '', three = ''] = ids
  return { caller, poison, others: [one, two, three] }
}

const isPoison = ({ text }: Received) => text.includes('poison')

test('a job that kills its process fails after max_attempts, and those behind it finish', {
  timeout,
}, async (t) => {
  const scene = await stage(t, 1)
  const { caller, poison, others } = await killAtEachPoison(scene, () => undefined)
  const { body } = await caller.ended(poison)
  assert.deepEqual([body.data?.status, body.data?.result], ['failed', null])
  assert.equal(body.data?.error?.code, 'internal_error')
  assert.match(body.data?.error?.message ?? '', /process .* crashed 3 times/)
  assert.equal(scene.models.requests.filter(isPoison).length, MAX_ATTEMPTS)
  for (const id of others) assert.equal((await caller.ended(id)).body.data?.status, 'completed')
  const later = await caller.single('later')
  assert.equal(later.body.data?.status, 'completed', 'the server is at peace')
})

for (const [pace, others] of [
  ['answered at once', () => undefined],
  // After a crash, a single job runs until it ends; only then do two run at the same time.
  ['that take their time', (deaths: number) => (deaths === 0 ? reply.stall() : undefined)],
] as const) {
  test(`jobs ${pace} that run next to one that kills its process finish`, {
    timeout,
  }, async (t) => {
    const { caller, poison, others: ids } = await killAtEachPoison(await stage(t, 256), others)
    assert.equal((await caller.ended(poison)).body.data?.status, 'failed')
    for (const id of ids) assert.equal((await caller.ended(id)).body.data?.status, 'completed')
  })
}
