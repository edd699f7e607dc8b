/** Tests what a callback may contain, that it is checked when its job is created, and how it is stored (SPEC §2.4). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { beforeTests } from '../support/on-first-use.ts'
import { type Caller, startScene } from './caller.ts'
import { type Database, openDatabase } from './database.ts'
import { enqueued, invalid } from './expect.ts'

const URL = 'https://example.com/hook'
const STALL = { script: () => reply.stall() }
const FIELD = 'jobs[0].callback'

const WRONG: readonly [name: string, callback: unknown, details: string][] = [
  ['a callback is an object', URL, ': must be an object'],
  ['a callback is not null', null, ': must be an object'],
  ['callback_url is required', {}, '.callback_url: is required'],
  ['callback_url is a string', { callback_url: 5 }, '.callback_url: must be a string'],
  ['an unknown field', { callback_url: URL, secret: 'x' }, '.secret: is not a known field'],
  [
    'callback_headers is an object',
    { callback_url: URL, callback_headers: ['a'] },
    '.callback_headers: must be an object',
  ],
  [
    'callback_headers are strings',
    { callback_url: URL, callback_headers: { 'X-Id': 5 } },
    '.callback_headers.X-Id: must be a string',
  ],
  [
    'callback_payload is an object',
    { callback_url: URL, callback_payload: [1] },
    '.callback_payload: must be an object',
  ],
]
const NOT_HTTP = 'hook /hook example.com ftp://example.com file:///etc/passwd http://'.split(' ')
const PRIVATE = '127.0.0.1 localhost 10.1.2.3 [::1] 2130706433 0x7f.1 db.internal'.split(' ')
const FORBIDDEN_HEADERS =
  `Host Content-Length Transfer-Encoding Connection Keep-Alive Proxy-Authorization TE Trailer
  Upgrade Expect HTTP2-Settings Content-Encoding webhook-id Webhook-Signature Forwarded X-Forwarded-For Via Metadata
  Metadata-Flavor X-aws-ec2-metadata-token X-Google-Metadata-Request X-Real-IP True-Client-IP CF-Connecting-IP
  X-Client-IP X-Original-URL X-Rewrite-URL X-HTTP-Method-Override`.split(/\s+/)

onEachStore(() => {
  let caller: Caller
  let database: Database
  beforeTests(async (t) => {
    // The model server stalls, so that no job ends and no callback is delivered.
    const scene = await startScene(t, STALL)
    caller = scene.caller
    database = await openDatabase(t, scene.parley)
  })

  const create = (callback: unknown, by = caller) => by.batch([job({ callback })])
  const toUrl = (callback_url: string, by = caller) => create({ callback_url }, by)
  const withHeader = (name: string, value: string) =>
    create({ callback_url: URL, callback_headers: { [name]: value } })

  async function isStored(callback: unknown, expected: unknown) {
    enqueued(await create(callback), 1)
    assert.deepEqual((await database.callbacks()).at(-1), expected)
  }

  for (const [name, callback, details] of WRONG) {
    test(`2.4 400 ${name}`, async () => invalid(await create(callback), `${FIELD}${details}`))
  }

  test('2.4 400 for a callback_url that is not an http or https address', async () => {
    const rule = `${FIELD}.callback_url: must be an absolute http or https URL`
    for (const url of NOT_HTTP) invalid(await toUrl(url), rule)
    invalid(await toUrl(''), /callback_url: /)
    invalid(await toUrl('https://user:secret@example.com'), /must not contain a user name/)
    invalid(await toUrl(`https://example.com/${'x'.repeat(9000)}`), /callback_url: /)
  })

  test('2.4 400 for a callback_url that leads to a private network names the setting', async () => {
    const rule = /^jobs\[0\]\.callback\.callback_url: leads to .*`callbacks\.allow_networks`/
    for (const host of PRIVATE) invalid(await toUrl(`http://${host}:8080/hook`), rule)
  })

  test('2.4 allow_networks allows a network, but never the metadata addresses', async (t) => {
    const callbacks = { allow_networks: ['10.0.0.0/8', '169.254.0.0/16'] }
    const own = (await startScene(t, { settings: { callbacks }, ...STALL })).caller
    enqueued(await toUrl('http://10.1.2.3/hook', own), 1)
    invalid(await toUrl('http://192.168.0.1/hook', own), /allow_networks/)
    invalid(await toUrl('http://169.254.169.254/', own), /can never be sent to/)
  })

  test('2.4 https_only rejects http', async (t) => {
    const own = (await startScene(t, { settings: { callbacks: { https_only: true } }, ...STALL })).caller
    const rule = /callback_url: must be an https URL, because the setting `callbacks.https_only` is on/
    invalid(await toUrl('http://example.com', own), rule)
    enqueued(await toUrl('https://example.com', own), 1)
  })

  test('2.4 400 for a header that would override framing, routing or signature', async () => {
    for (const name of FORBIDDEN_HEADERS) {
      const rule = new RegExp(`^jobs\\[0\\]\\.callback\\.callback_headers\\.${name}: cannot be set`)
      invalid(await withHeader(name, 'x'), rule)
    }
  })

  test('2.4 400 for a header that HTTP cannot carry', async () => {
    for (const name of ['', 'a b', 'a:b', 'a\nb']) invalid(await withHeader(name, 'x'), /callback_headers/)
    for (const value of ['a\r\nHost: b', '\u0000', 'é'])
      invalid(await withHeader('X-A', value), /callback_headers/)
    invalid(await withHeader('Content-Type', 'text/plain'), /Content-Type: must be application\/json/)
  })

  test('2.4 a callback is stored with its address, its headers, and {} if there is no payload', async () => {
    const headers = { 'X-Order': '17', Authorization: 'Bearer abc', 'content-type': 'application/json' }
    const full = { callback_url: 'HTTPS://Example.com/a b?q=1', callback_headers: headers }
    await isStored(full, { url: 'https://example.com/a%20b?q=1', headers, payloadJson: '{}' })
    const empty = { callback_url: URL, callback_headers: {}, callback_payload: {} }
    await isStored(empty, { url: URL, headers: {}, payloadJson: '{}' })
    await isStored(undefined, null)
  })

  test('2.4 callback_payload is stored as it was sent, to the last digit and escape', async () => {
    const payload =
      '{"id":9007199254740993,"neg":-9223372036854775808,"huge":1e400,"tiny":1E-400,"zero":-0,"one":1.0,' +
      '"long":0.12345678901234567890123,"text":"é 👋 \\u0000 \\ud800 \\u2028","empty":{},"list":[1,[2.50,null,true]],' +
      '"__proto__":{"a":1},"constructor":{"prototype":1},"a.b":"","":"no name"}'
    const callback = { callback_url: URL, callback_payload: { it: 0 } }
    const body = JSON.stringify([job({ callback }), job()])
    enqueued(await caller.batch(body.replace('{"it":0}', payload)), 2)
    const stored = (await database.callbacks()).slice(-2)
    assert.deepEqual(stored, [{ url: URL, headers: {}, payloadJson: payload }, null])
  })

  test('2.4 4.1 rule 3: each job of a batch has its own callback', async () => {
    const callback = (n: number) => ({
      callback_url: `${URL}/${n}`,
      callback_headers: { 'X-Number': `${n}` },
      callback_payload: { n },
    })
    await caller.enqueue([job({ callback: callback(1) }), job(), job({ callback: callback(2) })])
    const stored = (n: number) => ({
      url: `${URL}/${n}`,
      headers: { 'X-Number': `${n}` },
      payloadJson: `{"n":${n}}`,
    })
    assert.deepEqual((await database.callbacks()).slice(-3), [stored(1), null, stored(2)])
  })

  test('6 the outcome and the callback that is owed are stored together', async (t) => {
    const own = await startScene(t)
    const [id, other] = await own.caller.enqueue([job({ callback: { callback_url: URL } }), job()])
    for (const one of [id, other]) await own.caller.ended(one)
    const owed = await (await openDatabase(t, own.parley)).owed()
    assert.deepEqual(owed, [{ jobId: id, account: 'user_max' }])
  })
})
