import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { PostResult } from '../net/post.ts'
import { makeSecret } from '../net/signature.ts'
import type { CallbackBody } from '../store/callback-store.ts'
import { callbackRequest, nextAttempt } from './callback-request.ts'

const NOW_MS = Date.now()
const PAUSES_S = [0, 5, 300]

function bodyOf(over: Partial<CallbackBody> = {}): CallbackBody {
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
    },
    secrets: { current: makeSecret(), previous: null },
    ...over,
  }
}

test('6.3 the body has the six fields, the payload as it was stored', () => {
  const { body, headers } = callbackRequest(bodyOf(), NOW_MS)
  assert.equal(
    body,
    '{"status":"completed","job_id":"019a0000-0000-7000-8000-000000000000","created_at":5,' +
      '"result":{"response_content":{"a":1}},"error":null,"callback_payload":{"n":12345678901234567890}}',
  )
  assert.equal(headers['content-type'], 'application/json')
  assert.equal(headers['x-a'], 'b')
})

test('both secrets sign for a day after a rotation, and only the new one after it', () => {
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

test('what an answer means for the next attempt', () => {
  const answered = (status: number, retryAfterMs: number | null = null): PostResult => ({
    kind: 'answered',
    status,
    retryAfterMs,
    bodyStart: '',
    ms: 1,
  })
  const failed: PostResult = { kind: 'failed', message: 'reset', ms: 1 }
  const after = (result: PostResult, attempt = 1, random = 0.5) => {
    const next = nextAttempt(result, attempt, PAUSES_S, random, NOW_MS)
    return next.kind === 'due' ? next.atMs - NOW_MS : next.kind
  }
  assert.equal(after(answered(200)), 'delivered')
  assert.equal(after(answered(204)), 'delivered')
  assert.equal(after(answered(301)), 5000)
  assert.equal(after(answered(404)), 5000)
  assert.equal(after(answered(410)), 'failed')
  assert.equal(after(answered(500, 60_000)), 5000)
  assert.equal(after(answered(503, 60_000)), 60_000)
  assert.equal(after(answered(429, 1000)), 5000)
  assert.equal(after(failed), 5000)
  assert.equal(after(failed, 2), 300_000)
  assert.equal(after(failed, 3), 'failed')
  assert.equal(after(failed, 1, 0), 4000)
  assert.equal(after(failed, 1, 0.999999), 6000)
})
