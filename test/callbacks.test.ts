/** Tests callbacks through the whole service, with a real receiver (SPEC §6). */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { FakeClock } from './fake-clock.ts'
import { onEachStore } from './on-each-store.ts'
import { job, startParley, temporaryFolder } from './parley.ts'
import { startReceiver } from './receiver.ts'

async function start(t: TestContext) {
  const receiver = await startReceiver({}, t)
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 0, 0] }
  const parley = await startParley(t, { settings: { callbacks } })
  return { receiver, parley, key: await parley.key() }
}

const withCallback = (url: string, over: Readonly<Record<string, unknown>> = {}) =>
  job({ callback: { callback_url: `${url}/hook?a=b`, ...over } })

onEachStore(() => {
  test('6.2 and 6.3: the POST, its headers and its body', async (t) => {
    const { receiver, parley, key } = await start(t)
    const payload = '{"id":12345678901234567890,"huge":1e400,"text":"ü😀"}'
    const over = { callback_headers: { 'x-caller': 'mine' }, callback_payload: 'PAYLOAD' }
    const body = JSON.stringify([withCallback(receiver.url, over)]).replace('"PAYLOAD"', payload)
    const created = await parley.post('/api/v1/messages/batches', body, key)
    const [jobId] = created.body.data.job_ids
    const [request] = await receiver.received(1)
    assert.ok(request)
    assert.equal(`${request.method} ${request.path}`, 'POST /hook?a=b')
    assert.equal(request.headers['content-type'], 'application/json')
    assert.equal(request.headers['x-caller'], 'mine')
    assert.equal(request.headers['webhook-id'], jobId)
    assert.ok(request.body.endsWith(`,"callback_payload":${payload}}`), request.body)
    const read = await parley.ended(jobId, key)
    const { callback_payload: _, ...rest } = JSON.parse(request.body)
    assert.deepEqual(rest, read.body.data)

    const secrets = await parley.store.secrets('user_max')
    const headers = request.headers as Record<string, string>
    new Webhook(secrets?.current ?? '').verify(request.body, headers)
    assert.throws(() => new Webhook(secrets?.current ?? '').verify(request.body.replace('ü', 'u'), headers))
  })

  test('6.3 without a payload an empty object is sent, and a failed job is reported, too', async (t) => {
    const { receiver, parley, key } = await start(t)
    const failing = {
      ...withCallback(receiver.url),
      messages: [{ role: 'user', content: '[[fail model_error]]' }],
    }
    await parley.post('/api/v1/messages/batches', [failing], key)
    const [request] = await receiver.received(1)
    const body = JSON.parse(request?.body ?? '')
    assert.equal(body.status, 'failed')
    assert.equal(body.result, null)
    assert.equal(body.error.code, 'model_error')
    assert.deepEqual(body.callback_payload, {})
  })

  test('6.1 a batch element without a callback has none', async (t) => {
    const { receiver, parley, key } = await start(t)
    const jobs = [job(), withCallback(receiver.url)]
    const created = await parley.post('/api/v1/messages/batches', jobs, key)
    const requests = await receiver.received(1)
    for (const id of created.body.data.job_ids) await parley.ended(id, key)
    assert.deepEqual(
      requests.map(({ headers }) => headers['webhook-id']),
      [created.body.data.job_ids[1]],
    )
  })

  test('a failed delivery is retried with the same ID and a signature of its own', async (t) => {
    const { receiver, parley, key } = await start(t)
    receiver.script({ kind: 'answer', status: 500 }, { kind: 'reset', when: 'before' })
    await parley.post('/api/v1/messages/batches', [withCallback(receiver.url)], key)
    const requests = await receiver.received(3)
    assert.equal(new Set(requests.map(({ headers }) => headers['webhook-id'])).size, 1)
    assert.equal(new Set(requests.map(({ body }) => body)).size, 1)
    const secret = (await parley.store.secrets('user_max'))?.current ?? ''
    for (const { body, headers } of requests)
      new Webhook(secret).verify(body, headers as Record<string, string>)
  })

  test('a callback that was owed when the server stopped is sent after the next start', async (t) => {
    const folder = await temporaryFolder(t)
    const receiver = await startReceiver({}, t)
    const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 300] } }
    const startMs = Date.now()
    const first = await startParley(t, { folder, settings, clock: new FakeClock(startMs) })
    const key = await first.key()
    receiver.script({ kind: 'answer', status: 503 })
    const created = await first.post('/api/v1/messages/batches', [withCallback(receiver.url)], key)
    await receiver.received(1)
    await first.stop()

    await startParley(t, { folder, settings, clock: new FakeClock(startMs + 400_000) })
    const requests = await receiver.received(2)
    assert.equal(requests[1]?.headers['webhook-id'], created.body.data.job_ids[0])
  })
})
