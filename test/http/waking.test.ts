/** Tests `upstreams.NAME.wake_url`: Parley wakes model servers that scale to zero while jobs wait for them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Reply, reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { granted } from './expect.ts'
import { startOutageScene } from './outage-scene.ts'
import { stopAtOnce } from './stage.ts'

/** Starts a scene whose model server is down, and a server that wakes it. */
async function start(t: TestContext, answer: Reply) {
  const waker = await startModelServer({ script: () => answer }, t)
  const wake_url = `${waker.baseUrl}/wake?token=a-secret`
  const settings = { upstreams: { openai: { api_key_env: null, wake_url } } }
  const scene = await startOutageScene(t, { settings })
  await scene.models.kill()
  return { scene, ...scene, waker }
}

onEachStore(() => {
  test('a server that does not respond is woken once jobs wait, again every 30 s while one waits, and not once it responds', async (t) => {
    const { caller, models, createJobs, until, pass, complete, waker } = await start(t, reply.status(202))
    await pass(60_000, 1000)
    assert.equal(waker.requests.length, 0)
    const [id] = await createJobs(1)
    await until(() => waker.requests.length > 0)
    assert.deepEqual(waker.requests[0]?.body, { upstream: 'openai' })
    assert.equal(waker.requests[0]?.path, '/v1/wake?token=a-secret')
    await pass(65_000, 1000)
    assert.equal(waker.requests.length, 3)
    granted(await caller.cancel(id), 200)
    await pass(65_000, 1000)
    assert.equal(waker.requests.length, 3)
    const another = await createJobs(1)
    await until(() => waker.requests.length > 3)
    await models.start()
    await complete(another)
    await pass(60_000, 1000)
    assert.equal(waker.requests.length, 4)
  })

  test('a stop does not wait for a wake_url that never responds', async (t) => {
    const { scene, createJobs, until, waker } = await start(t, () => {})
    await createJobs(1)
    await until(() => waker.requests.length > 0)
    const startMs = performance.now()
    await stopAtOnce(scene)
    // If Parley did not abort the request, undici would wait ten seconds for the response.
    assert.ok(performance.now() - startMs < 8_000)
  })
})
