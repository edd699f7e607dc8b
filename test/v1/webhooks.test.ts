/** Tests events of background responses, as OpenAI's own client verifies them, and how operators see and replay them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { adminOf } from '../http/admin/admin.ts'
import { granted } from '../http/expect.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { openaiOf } from './official-client.ts'
import { shared } from './shared-stage.ts'
import { submitBatch } from './submit-batch.ts'

const HELLO = { model: 'gpt-5-mini', input: 'Hello' } as const

const CALLBACKS = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 0, 0] }

onEachStore(() => {
  const enter = shared(
    onFirstUse(async (t) => {
      const models = await startModelServer({}, t)
      const settings = { callbacks: CALLBACKS }
      return { models, parley: await startParley(t, { upstream: models.baseUrl, settings }) }
    }),
  )

  async function start(t: TestContext) {
    const receiver = await startReceiver({}, t)
    const stage = await enter(() => reply.text('Hi.'))
    const url = `${receiver.url}/events?token=x`
    // This comes before the first request with the key, because what a node knows of a key may be two seconds old.
    await stage.parley.store.setWebhook(stage.account, url)
    const webhookSecret = (await stage.parley.store.secrets(stage.account))?.current ?? ''
    const openai = openaiOf(stage.parley, stage.key, { webhookSecret })
    const eventAt = async (at: number) => {
      const request = (await receiver.received(at + 1))[at] ?? assert.fail()
      const event = await openai.webhooks.unwrap(request.body, request.headers as Record<string, string>)
      return { request, event }
    }
    return { ...stage, receiver, url, openai, eventAt }
  }

  test('unwrap() verifies the event of each ending, which names the response', async (t) => {
    const { models, openai, eventAt } = await start(t)
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
      const { request, event } = await eventAt(at)
      assert.equal(`${request.method} ${request.path}`, 'POST /events?token=x')
      assert.deepEqual([event.type, event.data, event.object], [type, { id }, 'event'])
      assert.match(event.id, /^evt_/)
      assert.ok(event.created_at >= created_at && Math.abs(event.created_at - Date.now() / 1000) < 300)
      const headers = request.headers as Record<string, string>
      await assert.rejects(openai.webhooks.unwrap(`${request.body} `, headers))
    }
    models.release()
  })

  test('unwrap() verifies the event of each way in which a batch ends', async (t) => {
    const { models, parley, openai, eventAt } = await start(t)
    const typeAt = async (at: number) => {
      const { event } = await eventAt(at)
      return [event.type, event.data]
    }

    const completed = await submitBatch(openai, ['one'])
    const { event } = await eventAt(0)
    assert.deepEqual([event.type, event.data], ['batch.completed', { id: completed.id }])
    const found = await openai.batches.retrieve(completed.id)
    assert.deepEqual([found.status, found.completed_at], ['completed', event.created_at])
    const failed = await submitBatch(openai, [], ['no json'])
    assert.deepEqual(await typeAt(1), ['batch.failed', { id: failed.id }])
    models.script = () => reply.stall()
    const cancelled = await submitBatch(openai, ['two'])
    await models.received(2)
    await openai.batches.cancel(cancelled.id)
    assert.deepEqual(await typeAt(2), ['batch.cancelled', { id: cancelled.id }])

    const admin = await adminOf(parley)
    const jobId = completed.id.slice('batch_'.length)
    const callback = granted(await admin.get(`/callbacks/${jobId}`), 200)
    assert.deepEqual([callback.event, callback.state], ['batch', 'delivered'])
    granted(await admin.post(`/callbacks/${jobId}/replay`), 200)
    assert.deepEqual((await eventAt(3)).event, event)
    models.release()
  })

  test('only background responses are reported, to the address that they were created with', async (t) => {
    const { account, models, parley, openai, eventAt } = await start(t)
    models.script = () => reply.stall()
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    await models.received(1)
    await parley.store.setWebhook(account, null)
    models.script = () => reply.text('Hi.')
    const held = await openai.responses.create(HELLO)
    models.release()
    assert.deepEqual((await eventAt(0)).event.data, { id })
    assert.equal(await parley.store.findCallback(held.id.slice('resp_'.length)), null)
  })

  test('an event is retried unchanged, listed with the callbacks, and replayed', async (t) => {
    const { account, receiver, parley, url, openai, eventAt } = await start(t)
    receiver.script({ kind: 'answer', status: 503 })
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    const jobId = id.slice('resp_'.length)
    const [first, second] = await receiver.received(2)
    assert.equal(second?.body, first?.body)
    const admin = await adminOf(parley)
    for (;;) {
      const [listed] = granted(await admin.get(`/callbacks?account=${account}`), 200).callbacks
      assert.deepEqual([listed.job_id, listed.url], [jobId, url])
      if (listed.state === 'delivered') break
    }
    assert.equal(granted(await admin.get(`/callbacks/${jobId}`), 200).event, 'response')
    granted(await admin.post(`/callbacks/${jobId}/replay`), 200)
    const third = await eventAt(2)
    assert.equal(third.request.body, first?.body)
    assert.deepEqual(third.event.data, { id })
  })

  test('an address that the settings do not allow is refused when the event is sent', async (t) => {
    const callbacks = { ...CALLBACKS, allow_networks: [] }
    const parley = await startParley(t, { settings: { callbacks } })
    const openai = openaiOf(parley, await parley.key())
    await parley.store.setWebhook('user_max', 'http://127.0.0.1:1/events')
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    for (;;) {
      const found = await parley.store.findCallback(id.slice('resp_'.length))
      if (found?.state !== 'failed') continue
      assert.match(found.last?.error ?? '', /not a public address/)
      return
    }
  })
})
