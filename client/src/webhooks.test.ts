import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { ConfigurationError, type VerificationFailure, WebhookVerificationError, webhooks } from './index.ts'

const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 2).toString('base64')}`
const AT = new Date('2026-01-02T03:04:05Z')
const BODY = JSON.stringify({
  status: 'completed',
  job_id: '019a',
  created_at: 1,
  result: { response_content: 'ü😀' },
  error: null,
  callback_payload: { order: 7 },
})

const signed = (over: { readonly secret?: string; readonly at?: Date; readonly body?: string } = {}) =>
  webhooks.sign(over.body ?? BODY, over.secret ?? SECRET, { id: '019a', at: over.at ?? AT })

async function refused(
  call: Promise<unknown>,
  reason: VerificationFailure,
  message: RegExp = /./,
): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof WebhookVerificationError, String(error))
    assert.equal(error.reason, reason)
    assert.match(error.message, message)
    return true
  })
}

test('what the package standardwebhooks signs is verified, and the other way round', async () => {
  const now = new Date()
  const headers = {
    'webhook-id': '019a',
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(SECRET).sign('019a', now, BODY),
  }
  assert.deepEqual(await webhooks.verify(BODY, headers, SECRET), JSON.parse(BODY))
  assert.deepEqual(await signed({ at: now }), headers)
  new Webhook(SECRET).verify(BODY, await signed({ at: now }))
})

test('bodies and headers are taken in every shape that servers have them in', async () => {
  const headers = await signed()
  const bytes = new TextEncoder().encode(BODY)
  const [id, timestamp, signature] = [
    headers['webhook-id'],
    headers['webhook-timestamp'],
    headers['webhook-signature'],
  ]
  const spelled = {
    'Webhook-Id': id,
    'WEBHOOK-TIMESTAMP': [timestamp],
    'webhook-signature': ['v1,xxxx', signature],
  }
  for (const body of [BODY, bytes, Buffer.from(BODY), bytes.buffer]) {
    for (const given of [headers, new Headers(headers), spelled, { ...headers, get: undefined }]) {
      const { job_id } = await webhooks.verify(body, given, SECRET, { at: AT })
      assert.equal(job_id, '019a')
    }
  }
})

test('one of several secrets and one of several signatures is enough', async () => {
  const [ours, theirs] = [await signed(), await signed({ secret: OTHER })]
  await webhooks.verify(BODY, ours, [OTHER, SECRET], { at: AT })
  const both = `${theirs['webhook-signature']} v1a,c2ln v1,%% ${ours['webhook-signature']}`
  await webhooks.verify(BODY, { ...ours, 'webhook-signature': both }, SECRET, { at: AT })
  await refused(webhooks.verify(BODY, theirs, SECRET, { at: AT }), 'wrong signature')
})

test('one byte that differs is refused, wherever it is', async () => {
  const headers = await signed()
  const verify = (body: string, over: Record<string, string> = {}) =>
    webhooks.verify(body, { ...headers, ...over }, SECRET, { at: AT })
  await refused(verify(BODY.replace('ü', 'u')), 'wrong signature', /exactly as it was received/)
  await refused(verify(`${BODY} `), 'wrong signature')
  await refused(verify(BODY, { 'webhook-id': '019b' }), 'wrong signature')
  const later = String(Number(headers['webhook-timestamp']) + 1)
  await refused(verify(BODY, { 'webhook-timestamp': later }), 'wrong signature')
  const signature = headers['webhook-signature']
  const right = Buffer.from(signature.slice(3), 'base64')
  for (const index of right.keys()) {
    const wrong = Buffer.from(right)
    wrong[index] = (right[index] ?? 0) ^ 1
    await refused(verify(BODY, { 'webhook-signature': `v1,${wrong.toString('base64')}` }), 'wrong signature')
  }
  const longer = Buffer.concat([right, Buffer.of(0)]).toString('base64')
  await refused(verify(BODY, { 'webhook-signature': `v1,${longer}` }), 'wrong signature')
  for (const other of [
    'v1,',
    'v1',
    signature.slice(0, -8),
    signature.replace('v1', 'v2'),
    `${signature}AAAA`,
  ]) {
    await refused(verify(BODY, { 'webhook-signature': other }), 'wrong signature')
  }
})

test('old callbacks and those from the future are refused, five minutes either way', async () => {
  const headers = await signed()
  const after = (seconds: number) => ({ at: new Date(AT.getTime() + seconds * 1000) })
  await webhooks.verify(BODY, headers, SECRET, after(300))
  await webhooks.verify(BODY, headers, SECRET, after(-300))
  await refused(webhooks.verify(BODY, headers, SECRET, after(301)), 'too old', /301 s ago/)
  await refused(webhooks.verify(BODY, headers, SECRET, after(-301)), 'too new')
  await webhooks.verify(BODY, headers, SECRET, { ...after(900), tolerance: 900 })
  await refused(webhooks.verify(BODY, headers, SECRET), 'too old')
})

test('headers that are missing or no times say so', async () => {
  const headers = await signed()
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    await refused(
      webhooks.verify(BODY, { ...headers, [name]: undefined }, SECRET, { at: AT }),
      'missing header',
      new RegExp(name),
    )
  }
  for (const timestamp of ['soon', '-5', '1e9', 'NaN', '9'.repeat(30)]) {
    const given = { ...headers, 'webhook-timestamp': timestamp }
    await refused(webhooks.verify(BODY, given, SECRET, { at: AT }), 'bad timestamp')
  }
})

test('a body that is right but is no callback says so', async () => {
  for (const body of ['<html>', '7', 'null', '{}']) {
    await refused(webhooks.verify(body, await signed({ body }), SECRET, { at: AT }), 'bad body')
  }
})

test('a secret that is none is a mistake of whoever set it up', async () => {
  for (const secret of ['', 'whsec_', 'whsec_c2hvcnQ=', 'whsec_%%%', []]) {
    await assert.rejects(webhooks.verify(BODY, await signed(), secret), ConfigurationError)
  }
})

test('payloads keep every digit with a parser that keeps them', async () => {
  const body = BODY.replace('"order":7', '"order":12345678901234567890')
  let parsed = ''
  const parseJson = (text: string) => {
    parsed = text
    return JSON.parse(text)
  }
  await webhooks.verify(body, await signed({ body }), SECRET, { at: AT, parseJson })
  assert.equal(parsed, body)
})
