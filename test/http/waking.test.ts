/** Tests `upstreams.NAME.wake_url`: Parley wakes model servers that scale to zero while jobs wait for them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { createJobs, untilTrue } from '../support/outage.ts'
import { granted } from './expect.ts'
import { startStage, stopAtOnce } from './stage.ts'

onEachStore(() => {
  test('a server that does not respond is woken once jobs wait, again every 30 s while one waits, and not once it responds', async (t) => {
    const waker = await startModelServer({ script: () => reply.status(202) }, t)
    const wake_url = `${waker.baseUrl}/wake?token=a-secret`
    const stage = await startStage(t, {
      settings: { upstreams: { openai: { api_key_env: null, wake_url } } },
    })
    const { parley, models, clock } = stage
    const key = await parley.key()
    const pass = async (ms: number) => {
      const endMs = clock.nowMs() + ms
      await untilTrue(t, stage, () => clock.nowMs() >= endMs, 1000)
    }
    await models.kill()
    await pass(60_000)
    assert.equal(waker.requests.length, 0)
    const [id] = await createJobs(parley, key, 1)
    await untilTrue(t, stage, () => waker.requests.length > 0)
    assert.deepEqual(waker.requests[0]?.body, { upstream: 'openai' })
    assert.equal(waker.requests[0]?.path, '/v1/wake?token=a-secret')
    await pass(65_000)
    assert.equal(waker.requests.length, 3)
    assert.equal((await parley.post(`/api/v1/messages/${id}/cancel`, {}, key)).status, 200)
    await pass(65_000)
    assert.equal(waker.requests.length, 3)
    const [another] = await createJobs(parley, key, 1)
    await untilTrue(t, stage, () => waker.requests.length > 3)
    await models.start()
    const status = async () => granted(await parley.get(`/api/v1/messages/${another}`, key), 200).status
    await untilTrue(t, stage, async () => (await status()) === 'completed')
    await pass(60_000)
    assert.equal(waker.requests.length, 4)
  })

  test('a stop does not wait for a wake_url that never responds', async (t) => {
    const waker = await startModelServer({ script: () => () => {} }, t)
    const wake_url = `${waker.baseUrl}/wake`
    const stage = await startStage(t, {
      settings: { upstreams: { openai: { api_key_env: null, wake_url } } },
    })
    const { parley, models } = stage
    await models.kill()
    await createJobs(parley, await parley.key(), 1)
    await untilTrue(t, stage, () => waker.requests.length > 0)
    const startMs = performance.now()
    await stopAtOnce(stage)
    // If Parley did not abort the request, undici would wait ten seconds for the response.
    assert.ok(performance.now() - startMs < 8_000)
  })
})
