import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { NO_USAGE, type Usage } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import { makeSecret } from '../net/signing-secrets.ts'
import { callbackRequest, type SignableBody } from './callback-sender.ts'

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
    endedAtMs: 7900,
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

test('an event names the job and how it ended, the same in every attempt', () => {
  const { callback, view } = bodyOf()
  const event = { ...callback, payloadJson: 'null', event: { of: 'response', idPrefix: 'resp_' } }
  const typeOf = (over: Partial<JobRecord>, nowMs = NOW_MS) => {
    const { body } = callbackRequest(bodyOf({ callback: event, view: { ...view, ...over } }), nowMs)
    const { type, ...rest } = JSON.parse(String(body))
    const data = { id: `resp_${view.id}` }
    assert.deepEqual(rest, { id: `evt_${view.id}`, object: 'event', created_at: 7, data })
    return type
  }
  const failed = (code: string, usage: Partial<Usage> = {}): Partial<JobRecord> => ({
    status: 'failed',
    contentJson: null,
    errorJson: JSON.stringify({ code, message: 'x' }),
    usageJson: JSON.stringify({ ...NO_USAGE, ...usage }),
  })
  assert.equal(typeOf({}), 'response.completed')
  assert.equal(typeOf({}, NOW_MS + 60_000), 'response.completed')
  const cut = { finish_reason: 'length' } as const
  assert.equal(typeOf({ usageJson: JSON.stringify({ ...NO_USAGE, ...cut }) }), 'response.incomplete')
  assert.equal(typeOf(failed('validation_error', cut)), 'response.incomplete')
  assert.equal(typeOf(failed('content_policy_violation')), 'response.incomplete')
  assert.equal(typeOf(failed('cancelled')), 'response.cancelled')
  for (const code of ['validation_error', 'model_error', 'timeout', 'internal_error']) {
    assert.equal(typeOf(failed(code)), 'response.failed')
  }
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
