/** Tests that the client verifies what a real server sends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebhookVerificationError, webhooks } from '../../client/src/index.ts'
import { onAnyStore } from '../on-each-store.ts'
import { startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { asking, clientOf } from './client.ts'

onAnyStore(() => {
  test('a callback is verified with one of several secrets, and typed', async (t) => {
    const receiver = await startReceiver({}, t)
    const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
    const parley = await startParley(t, { settings })
    const client = clientOf(parley, await parley.key())
    const wanted = { callback_url: receiver.url, callback_payload: { order: 7 } }
    const [id] = await client.messages.createBatch([{ ...asking('Call me'), callback: wanted }])
    const [request] = await receiver.received(1)
    assert.ok(request)
    const { current = '' } = (await parley.store.secrets('user_max')) ?? {}
    const other = `whsec_${Buffer.alloc(32).toString('base64')}`
    const callback = await webhooks.verify<string, { order: number }>(request.body, request.headers, [
      other,
      current,
    ])
    assert.equal(callback.job_id, id)
    assert.equal(callback.status, 'completed')
    assert.match(callback.result?.response_content ?? '', /Call me/)
    assert.equal(callback.callback_payload.order, 7)
    await assert.rejects(webhooks.verify(request.body, request.headers, other), WebhookVerificationError)
  })
})
