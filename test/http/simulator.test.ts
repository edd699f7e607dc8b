/** Tests that every response to a caller and every callback says so while the simulator answers instead of a model. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'

const MESSAGES = '/api/v1/messages'
const HEADER = 'x-parley-simulated'

onEachStore(() => {
  test('creates, reads, waits, lists and callbacks carry x-parley-simulated: true', async (t) => {
    const receiver = await startReceiver({}, t)
    const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } }
    const parley = await startParley(t, { settings })
    const key = await parley.key()
    const callback = { callback_url: receiver.url, callback_headers: { 'X-Parley-Simulated': 'no' } }
    const single = await parley.post(MESSAGES, job(), key)
    const batch = await parley.post(`${MESSAGES}/batches`, [job({ callback })], key)
    const id = batch.body.data.job_ids[0]
    const read = await parley.get(`${MESSAGES}/${id}?wait=10`, key)
    const list = await parley.get(MESSAGES, key)
    for (const { status, headers, text } of [single, batch, read, list]) {
      assert.ok(status < 300, text)
      assert.equal(headers.get(HEADER), 'true')
    }
    const [posted] = await receiver.received(1)
    assert.equal(posted?.headers[HEADER], 'true')
  })

  test('with PARLEY_SIMULATOR=true no configured model server is called, and with a model nothing is marked', async (t) => {
    const models = await startModelServer({}, t)
    const simulated = await startParley(t, { upstream: models.baseUrl, env: { PARLEY_SIMULATOR: 'true' } })
    const answer = await simulated.post(MESSAGES, job(), await simulated.key())
    assert.match(answer.body.data.result.response_content, /simulated answer/)
    assert.equal(answer.headers.get(HEADER), 'true')
    assert.equal(models.requests.length, 0)
    // Alerts compare these calls with the running ones of the same upstream.
    const { text } = await simulated.get('/metrics')
    assert.match(text, /^parley_upstream_calls_total\{upstream="openai",.*result="answer"\} 1$/m)

    const parley = await startParley(t, { upstream: models.baseUrl })
    const real = await parley.post(MESSAGES, job(), await parley.key())
    assert.equal(real.status, 200)
    assert.equal(real.headers.get(HEADER), null)
  })
})
