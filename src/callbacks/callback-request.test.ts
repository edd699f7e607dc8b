import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { makeSecret } from '../net/signature.ts'
import { callbackRequest, type SignableBody } from './callback-request.ts'

const NOW_MS = Date.now()

function bodyOf(over: Partial<SignableBody> = {}): SignableBody {
  return {
    callback: {
      url: 'https://example.com/',
      headers: { 'x-a': 'b' },
      payloadJson: '{"n":12345678901234567890}',
    },
    view: {
      id: '019a0000-0000-7000-8000-000000000000',
      status: 'completed',
      createdAtMs: 5500,
      contentJson: '{"a":1}',
      errorJson: null,
      usageJson: null,
    },
    secrets: { current: makeSecret(), previous: null },
    ...over,
  }
}

test('6.3 the body has the six fields, with the payload as it was stored', () => {
  const { body, headers } = callbackRequest(bodyOf(), NOW_MS)
  assert.equal(
    body,
    '{"status":"completed","job_id":"019a0000-0000-7000-8000-000000000000","created_at":5,' +
      '"result":{"response_content":{"a":1}},"error":null,"callback_payload":{"n":12345678901234567890}}',
  )
  assert.equal(headers['content-type'], 'application/json')
  assert.equal(headers['x-a'], 'b')
})

test('after a rotation both secrets sign for a day, and then only the new one', () => {
  const [current, old] = [makeSecret(), makeSecret()]
  const rotatedAtMs = NOW_MS - 86_400_000 + 1
  const { body, headers } = callbackRequest(
    bodyOf({ secrets: { current, previous: { secret: old, rotatedAtMs } } }),
    NOW_MS,
  )
  for (const secret of [current, old]) new Webhook(secret).verify(body, { ...headers })

  const over = { current, previous: { secret: old, rotatedAtMs: rotatedAtMs - 1 } }
  const later = callbackRequest(bodyOf({ secrets: over }), NOW_MS)
  new Webhook(current).verify(later.body, { ...later.headers })
  assert.throws(() => new Webhook(old).verify(later.body, { ...later.headers }))
})
