/** Events of background responses, as OpenAI's own client verifies them, and how operators see and replay them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { adminOf } from '../http/admin/admin.ts'
import { granted } from '../http/expect.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { startParley } from '../parley.ts'
import { type ReceivedRequest, startReceiver } from '../receiver.ts'
import { openaiOf } from './official-client.ts'
import { submitBatch } from './submit-batch.ts'

const HELLO = { model: 'gpt-5-mini', input: 'Hello' } as const
const ACCOUNT = 'acme'

async function start(t: TestContext, settings: Readonly<Record<string, unknown>> = {}) {
  const receiver = await startReceiver()
  const models = await startModelServer()
  models.script = () => reply.text('Hi.')
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 0, 0], ...settings }
  const parley = await startParley(t, { upstream: models.baseUrl, settings: { callbacks } })
  t.after(() => receiver.close())
  t.after(() => models.close())
  const key = await parley.key('user_max', ACCOUNT)
  const url = `${receiver.url}/events?token=x`
  // This comes before the first request with the key, because what a node knows of a key may be two seconds old.
  await parley.store.setWebhook(ACCOUNT, url)
  const webhookSecret = (await parley.store.secrets(ACCOUNT))?.current ?? ''
  return { receiver, models, parley, key, url, openai: openaiOf(parley, key, { webhookSecret }) }
}

const headersOf = ({ headers }: ReceivedRequest) => headers as Record<string, string>

onEachStore(() => {
  test('unwrap() verifies the event of each ending, which names the response', async (t) => {
    const { receiver, models, openai } = await start(t)
    const endings = [
      ['response.completed', reply.text('Hi.')],
      ['response.incomplete', reply.truncated('H')],
      ['response.failed', reply.status(400)],
      ['response.cancelled', reply.stall()],
    ] as const
    for (const [at, [type, answer]] of endings.entries()) {
      models.script = () => answer
      const { id, created_at } = await openai.responses.create({ ...HELLO, background: true })
      if (type === 'response.cancelled') await openai.responses.cancel(id)
      const request = (await receiver.received(at + 1))[at]
      assert.ok(request)
      assert.equal(`${request.method} ${request.path}`, 'POST /events?token=x')
      const event = await openai.webhooks.unwrap(request.body, headersOf(request))
      assert.equal(event.type, type)
      assert.deepEqual(event.data, { id })
      assert.equal(event.object, 'event')
      assert.match(event.id, /^evt_/)
      assert.ok(event.created_at >= created_at && Math.abs(event.created_at - Date.now() / 1000) < 300)
      await assert.rejects(openai.webhooks.unwrap(`${request.body} `, headersOf(request)))
    }
    models.release()
  })

  test('unwrap() verifies the event of each way in which a batch ends', async (t) => {
    const { receiver, models, parley, openai } = await start(t)
    const eventAt = async (at: number) => {
      const request = (await receiver.received(at + 1))[at] ?? assert.fail()
      return openai.webhooks.unwrap(request.body, headersOf(request))
    }

    const completed = await submitBatch(openai, ['one'])
    const event = await eventAt(0)
    assert.deepEqual([event.type, event.data], ['batch.completed', { id: completed.id }])
    const found = await openai.batches.retrieve(completed.id)
    assert.deepEqual([found.status, found.completed_at], ['completed', event.created_at])
    const failed = await submitBatch(openai, [], ['no json'])
    assert.deepEqual([(await eventAt(1)).type, (await eventAt(1)).data], ['batch.failed', { id: failed.id }])
    models.script = () => reply.stall()
    const cancelled = await submitBatch(openai, ['two'])
    await models.received(2)
    await openai.batches.cancel(cancelled.id)
    assert.deepEqual(
      [(await eventAt(2)).type, (await eventAt(2)).data],
      ['batch.cancelled', { id: cancelled.id }],
    )

    const admin = await adminOf(parley)
    const jobId = completed.id.slice('batch_'.length)
    const callback = granted(await admin.get(`/callbacks/${jobId}`), 200)
    assert.deepEqual([callback.event, callback.state], ['batch', 'delivered'])
    granted(await admin.post(`/callbacks/${jobId}/replay`), 200)
    assert.deepEqual(await eventAt(3), event)
    models.release()
  })

  test('only background responses are reported, to the address that they were created with', async (t) => {
    const { receiver, models, parley, openai } = await start(t)
    models.script = () => reply.stall()
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    await models.received(1)
    await parley.store.setWebhook(ACCOUNT, null)
    models.script = () => reply.text('Hi.')
    const held = await openai.responses.create(HELLO)
    models.release()
    const [request] = await receiver.received(1)
    assert.deepEqual(JSON.parse(request?.body ?? '').data, { id })
    assert.equal(await parley.store.findCallback(held.id.slice('resp_'.length)), null)
  })

  test('an event is retried unchanged, listed with the callbacks, and replayed', async (t) => {
    const { receiver, parley, url, openai } = await start(t)
    receiver.script({ kind: 'answer', status: 503 })
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    const jobId = id.slice('resp_'.length)
    const [first, second] = await receiver.received(2)
    assert.equal(second?.body, first?.body)
    const admin = await adminOf(parley)
    for (;;) {
      const [listed] = granted(await admin.get('/callbacks'), 200).callbacks
      assert.equal(listed.job_id, jobId)
      assert.equal(listed.url, url)
      if (listed.state === 'delivered') break
    }
    assert.equal(granted(await admin.get(`/callbacks/${jobId}`), 200).event, 'response')
    granted(await admin.post(`/callbacks/${jobId}/replay`), 200)
    const third = (await receiver.received(3))[2] ?? assert.fail()
    assert.equal(third.body, first?.body)
    assert.deepEqual((await openai.webhooks.unwrap(third.body, headersOf(third))).data, { id })
  })

  test('an address that the settings do not allow is refused when the event is sent', async (t) => {
    const { parley, openai } = await start(t, { allow_networks: [] })
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    for (;;) {
      const found = await parley.store.findCallback(id.slice('resp_'.length))
      if (found?.state !== 'failed') continue
      assert.match(found.last?.error ?? '', /not a public address/)
      return
    }
  })
})
