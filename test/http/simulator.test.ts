/** Tests that every response to a caller and every callback says so while the simulator answers instead of a model. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { callerOf, LOCAL_CALLBACKS, MESSAGES } from './caller.ts'
import { completed } from './expect.ts'

const HEADER = 'x-parley-simulated'

onEachStore(() => {
  test('creates, reads, waits, lists and callbacks carry x-parley-simulated: true', async (t) => {
    const receiver = await startReceiver({}, t)
    const caller = await callerOf(await startParley(t, { settings: LOCAL_CALLBACKS }))
    const callback = { callback_url: receiver.url, callback_headers: { 'X-Parley-Simulated': 'no' } }
    const single = await caller.create()
    const batch = await caller.batch([job({ callback })])
    const read = await caller.read(batch.body.data.job_ids[0], '?wait=10')
    for (const { status, headers, text } of [single, batch, read, await caller.get(MESSAGES)]) {
      assert.ok(status < 300, text)
      assert.equal(headers.get(HEADER), 'true')
    }
    const [posted] = await receiver.received(1)
    assert.equal(posted?.headers[HEADER], 'true')
  })

  test('with PARLEY_SIMULATOR=true no configured model server is called, and with a model nothing is marked', async (t) => {
    const models = await startModelServer({}, t)
    const simulated = await startParley(t, { upstream: models.baseUrl, env: { PARLEY_SIMULATOR: 'true' } })
    const answer = await (await callerOf(simulated)).create()
    assert.match(completed(answer), /simulated answer/)
    assert.equal(answer.headers.get(HEADER), 'true')
    assert.equal(models.requests.length, 0)
    // Alerts compare the number of these calls with the running calls of the same upstream.
    const { text } = await simulated.get('/metrics')
    assert.match(text, /^parley_upstream_calls_total\{upstream="openai",.*result="answer"\} 1$/m)

    const real = await (await callerOf(await startParley(t, { upstream: models.baseUrl }))).create()
    completed(real)
    assert.equal(real.headers.get(HEADER), null)
  })
})
