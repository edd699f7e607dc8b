/**
 * Tests that hostile input never causes a 5xx, and that every error has the same shape. Random values and mutated bytes are
 * sent to every route.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, type Parley, startParley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'

/** Each of the five tests gets this many inputs: in the long form, together 100,000 on each store. */
const RUNS = LONG ? 20_000 : 300
const AT_ONCE = 20

async function start(t: TestContext): Promise<{ parley: Parley; key: string }> {
  // The rate limit must not reject reads, and a run must not wait for an answer that a directive of the simulator delays.
  const tier = { user_max: { reads_per_minute: 10_000_000 } }
  const limits = { cancels_per_minute: 10_000_000, deletes_per_minute: 10_000_000 }
  const parley = await startParley(t, { settings: { tiers: tier, sync: { max_waiters: 0 }, limits } })
  return { parley, key: await parley.key() }
}

function assertOneShape({ status, body, text, headers }: Answer, sent: string): void {
  const about = `${status} ${text.slice(0, 300)} for ${sent.slice(0, 300)}`
  assert.ok(status < 500, about)
  assert.ok(headers.get('x-request-id'), about)
  assert.equal(typeof body?.message, 'string', about)
  assert.equal(body.success, status < 400, about)
  if (status < 400) return
  assert.deepEqual(
    Object.keys(body).filter((key) => !['success', 'message', 'details'].includes(key)),
    [],
    about,
  )
  if ('details' in body) assert.equal(typeof body.details, 'string', about)
}

async function forMany<T>(arbitrary: fc.Arbitrary<T>, check: (value: T) => Promise<void>): Promise<void> {
  const group = fc.array(arbitrary, { minLength: AT_ONCE, maxLength: AT_ONCE })
  const property = fc.asyncProperty(group, async (values) => {
    await Promise.all(values.map(check))
  })
  await fc.assert(property, { numRuns: Math.ceil(RUNS / AT_ONCE), endOnFailure: true })
}

const oneOf = (words: string) => fc.constantFrom('', ...words.trim().split(/\s+/))

const name = fc.oneof(
  oneOf(`model messages response_format schema format timeout callback callback_url callback_headers
    callback_payload message_cache_ttl role content type properties __proto__ constructor toString $ref required pattern`),
  fc.string({ unit: 'binary' }),
)
const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, 0, -1, 1e308, '\u0000'),
    oneOf('text json user gpt-5 gpt-auto #/$defs/a'),
    fc.string({ unit: 'binary' }),
    fc.double(),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
  ),
})).value

/** One part of a valid job is replaced by anything. */
const spoilt = fc.tuple(fc.nat(12), name, value).map(([part, field, anything]) => {
  const good = { ...job(), messages: [{ role: 'user', content: 'x' }] }
  const spoiltParts: Record<string, unknown>[] = [
    { model: anything },
    { messages: anything },
    { messages: [anything] },
    { messages: [{ role: anything, content: 'x' }] },
    { messages: [{ role: 'user', content: anything }] },
    { response_format: anything },
    { response_format: { format: 'json', schema: anything } },
    { response_format: { format: 'json', schema: { type: 'object', properties: { [field]: anything } } } },
    { message_cache_ttl: anything },
    { timeout: anything },
    { callback: anything },
    { callback: { callback_url: 'https://example.com/', callback_payload: { [field]: anything } } },
    { [field]: anything },
  ]
  return { ...good, ...spoiltParts[part] }
})

onEachStore(() => {
  test('any JSON on the two creates', async (t) => {
    const { parley, key } = await start(t)
    await forMany(fc.tuple(fc.boolean(), fc.oneof(spoilt, value)), async ([single, body]) => {
      const text = JSON.stringify(single ? body : [body]) ?? 'null'
      const path = single ? '/api/v1/messages' : '/api/v1/messages/batches'
      assertOneShape(await parley.post(path, text, key), text)
    })
  })

  test('any bytes on the two creates', async (t) => {
    const { parley, key } = await start(t)
    const good = new TextEncoder().encode(
      JSON.stringify([job(), job({ callback: { callback_url: 'https://example.com' } })]),
    )
    const edit = fc.tuple(fc.nat(good.length - 1), fc.uint8Array({ maxLength: 6 }), fc.nat(8))
    await forMany(fc.array(edit, { maxLength: 5 }), async (edits) => {
      let bytes: Uint8Array = good
      for (const [at, insert, drop] of edits) {
        bytes = new Uint8Array([...bytes.subarray(0, at), ...insert, ...bytes.subarray(at + drop)])
      }
      const body = Buffer.from(bytes)
      const headers = { 'content-type': 'application/json', 'x-api-key': key }
      const answer = await parley.request('/api/v1/messages/batches', { method: 'POST', headers, body })
      assertOneShape(answer, body.toString('latin1'))
    })
  })

  test('any path, method and headers', async (t) => {
    const { parley, key } = await start(t)
    const segment = fc.oneof(fc.webSegment(), fc.string({ unit: 'binary' }).map(encodeURIComponentSafely))
    const path = fc.oneof(
      segment.map((id) => `/api/v1/messages/${id}`),
      fc.array(segment, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`),
      oneOf('/api/v1/messages/%zz /api/v1/messages/% /api/v1/messages// /%c0%af /api/v1/me?a=%zz'),
    )
    const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH')
    const header = fc.tuple(
      fc.constantFrom(
        ...['content-type', 'accept', 'idempotency-key', 'x-request-id', 'x-api-key', 'origin', 'x-odd'],
      ),
      fc.stringMatching(/^[\x21-\x7e]{0,40}$/),
    )
    const input = fc.tuple(path, method, fc.array(header, { maxLength: 3 }), fc.boolean())
    await forMany(input, async ([where, how, given, withKey]) => {
      if (where.startsWith('/docs') || where.startsWith('/metrics')) return
      const headers = { ...Object.fromEntries(given), ...(withKey && { 'x-api-key': key }) }
      const body = how === 'GET' ? null : '{"a":1}'
      assertOneShape(await parley.request(where, { method: how, headers, body }), `${how} ${where}`)
    })
  })

  test('any query, id and body on the routes of a caller’s own jobs', async (t) => {
    const { parley, key } = await start(t)
    const made = await Promise.all([
      parley.post('/api/v1/messages', job(), key),
      parley.post('/api/v1/messages', job({ model: 'gpt-5' }), await parley.key('user_pro')),
    ])
    const known = made.map(({ body }) => String(body.data.job_id))
    const id = fc.oneof(
      fc.constantFrom(...known, ...known.map((one) => one.toUpperCase()), '', 'batches', '%00', '%zz'),
      fc.uuid(),
      fc.webSegment(),
      fc.string({ unit: 'binary' }).map(encodeURIComponentSafely),
    )
    const ids = fc.array(id, { maxLength: 120 }).map((several) => several.join(','))
    const word = fc.oneof(id, ids, oneOf('0 1 120 121 -1 0.5 1e2 100 101 all any pending true'))
    const field = oneOf('limit after status ids ids wait wait_for drop_callback ids[] __proto__')
    const query = fc.array(fc.tuple(field, word), { maxLength: 4 })
    const where = fc.oneof(
      fc.constant(['GET', ''] as const),
      id.map((one) => ['GET', `/${one}`] as const),
      id.map((one) => ['DELETE', `/${one}`] as const),
      id.map((one) => ['POST', `/${one}/cancel`] as const),
    )
    const body = fc.option(value, { freq: 3 })
    await forMany(fc.tuple(where, query, body), async ([[method, path], asked, given]) => {
      const address = `/api/v1/messages${path}?${asked.map(([name, text]) => `${name}=${text}`).join('&')}`
      const text = method === 'GET' || given === null ? null : JSON.stringify(given)
      const headers = { 'x-api-key': key, ...(text !== null && { 'content-type': 'application/json' }) }
      const answer = await parley.request(address, { method, headers, body: text })
      assertOneShape(answer, `${method} ${address} ${text}`)
      // Only the other account's job uses the model `gpt-5`, so no response may contain that name.
      assert.ok(!answer.text.includes('gpt-5"'), answer.text)
    })
    const theirs = await parley.get(`/api/v1/messages/${known[1]}`, await parley.key('user_pro'))
    assert.equal(theirs.body.data.status, 'completed')
  })

  test('any query, path, body and headers on the admin API', async (t) => {
    const { parley } = await start(t)
    const segment = fc.oneof(fc.webSegment(), fc.string({ unit: 'binary' }).map(encodeURIComponentSafely))
    const field = oneOf(`account status state model from to before after limit tier rotate month scrub running
      max_monthly_jobs max_monthly_tokens max_open_jobs expires_days __proto__ constructor`)
    const word = fc.oneof(
      segment,
      oneOf('1 -1 1e9 200 999999999999999 0.5 pending owed 2026-01 2026-01/acme/gpt-5 true %00 %zz NaN'),
      fc.constantFrom('01a1fe6b-3756-7000-b3fd-321f8e1ec5aa', '00000000-0000-0000-0000-000000000000'),
    )
    const query = fc.array(fc.tuple(field, word), { maxLength: 4 })
    const path = fc.oneof(
      oneOf('overview jobs callbacks accounts keys settings usage audit nothing'),
      oneOf('suspend resume caps cancel-jobs tier secret').map((action) => `accounts/user_max/${action}`),
      fc.constant('callbacks/replay-failed'),
      ...['jobs/X/cancel', 'jobs/X', 'jobs/X/content', 'callbacks/X', 'callbacks/X/replay', 'accounts/X/tier']
        .concat('accounts/X/secret', 'keys/X/revoke')
        .map((route) => segment.map((id) => route.replace('X', () => id))),
    )
    const fields = fc.array(fc.tuple(field, fc.oneof(value, fc.constantFrom('user_max', 'acme', true, 1))), {
      maxLength: 4,
    })
    const body = fc.oneof(
      value,
      fields.map((entries) => Object.fromEntries(entries)),
    )
    const post = fc.oneof(fc.constant(null), body)
    await forMany(fc.tuple(path, query, post, fc.boolean()), async ([where, asked, given, deletes]) => {
      const search = asked.map(([name, text]) => `${name}=${text}`).join('&')
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
      const address = `/admin/api/${where}?${search}`
      const text = given === null ? null : (JSON.stringify(given) ?? 'null')
      const method = deletes ? 'DELETE' : 'POST'
      const init = text === null ? { headers } : { headers, method, body: text }
      assertOneShape(await parley.request(address, init), `${address} ${text}`)
    })
  })
})

/** `encodeURIComponent` throws for lone surrogates. */
function encodeURIComponentSafely(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}
