/** Tests what a callback may contain, that it is checked when its job is created, and how it is stored (SPEC §2.4). */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { openDatabase } from './database.ts'
import { enqueued, invalid } from './expect.ts'
import { startStage } from './stage.ts'

const BATCHES = '/api/v1/messages/batches'
const URL = 'https://example.com/hook'

onEachStore(async () => {
  // The model server stalls, so that no job ends and no callback is delivered.
  const stage = await startStage({ after }, { script: () => reply.stall() })
  const key = await stage.parley.key()
  const database = await openDatabase({ after }, stage.parley)

  async function create(callback: unknown, parley: Parley = stage.parley, apiKey = key) {
    return parley.post(BATCHES, [job({ callback })], apiKey)
  }

  /** Returns the stored callback of the newest job. */
  async function stored() {
    return (await database.callbacks()).at(-1)
  }

  const FIELD = 'jobs[0].callback'

  const WRONG: readonly [name: string, callback: unknown, details: string][] = [
    ['a callback is an object', URL, `${FIELD}: must be an object`],
    ['a callback is not null', null, `${FIELD}: must be an object`],
    ['callback_url is required', {}, `${FIELD}.callback_url: is required`],
    ['callback_url is a string', { callback_url: 5 }, `${FIELD}.callback_url: must be a string`],
    ['an unknown field', { callback_url: URL, secret: 'x' }, `${FIELD}.secret: is not a known field`],
    [
      'callback_headers is an object',
      { callback_url: URL, callback_headers: ['a'] },
      `${FIELD}.callback_headers: must be an object`,
    ],
    [
      'callback_headers are strings',
      { callback_url: URL, callback_headers: { 'X-Id': 5 } },
      `${FIELD}.callback_headers.X-Id: must be a string`,
    ],
    [
      'callback_payload is an object',
      { callback_url: URL, callback_payload: [1] },
      `${FIELD}.callback_payload: must be an object`,
    ],
  ]

  for (const [name, callback, details] of WRONG) {
    test(`2.4 400 ${name}`, async () => invalid(await create(callback), details))
  }

  test('2.4 400 for a callback_url that is not an http or https address', async () => {
    for (const url of [
      'hook',
      '/hook',
      'example.com',
      'ftp://example.com',
      'file:///etc/passwd',
      'http://',
    ]) {
      const rule = 'must be an absolute http or https URL'
      invalid(await create({ callback_url: url }), `${FIELD}.callback_url: ${rule}`)
    }
    invalid(await create({ callback_url: '' }), /callback_url: /)
    invalid(await create({ callback_url: 'https://user:secret@example.com' }), /must not contain a user name/)
    invalid(await create({ callback_url: `https://example.com/${'x'.repeat(9000)}` }), /callback_url: /)
  })

  test('2.4 400 for a callback_url that leads to a private network names the setting', async () => {
    for (const host of [
      '127.0.0.1',
      'localhost',
      '10.1.2.3',
      '[::1]',
      '2130706433',
      '0x7f.1',
      'db.internal',
    ]) {
      const answer = await create({ callback_url: `http://${host}:8080/hook` })
      invalid(answer, /^jobs\[0\]\.callback\.callback_url: leads to .*`callbacks\.allow_networks`/)
    }
  })

  test('2.4 allow_networks allows a network, but never the metadata addresses', async (t) => {
    const { parley } = await startStage(t, {
      settings: { callbacks: { allow_networks: ['10.0.0.0/8', '169.254.0.0/16'] } },
      script: () => reply.stall(),
    })
    const own = await parley.key()
    enqueued(await create({ callback_url: 'http://10.1.2.3/hook' }, parley, own), 1)
    invalid(await create({ callback_url: 'http://192.168.0.1/hook' }, parley, own), /allow_networks/)
    invalid(await create({ callback_url: 'http://169.254.169.254/' }, parley, own), /can never be sent to/)
  })

  test('2.4 https_only rejects http', async (t) => {
    const { parley } = await startStage(t, {
      settings: { callbacks: { https_only: true } },
      script: () => reply.stall(),
    })
    const own = await parley.key()
    const details = /callback_url: must be an https URL, because the setting `callbacks.https_only` is on/
    invalid(await create({ callback_url: 'http://example.com' }, parley, own), details)
    enqueued(await create({ callback_url: 'https://example.com' }, parley, own), 1)
  })

  test('2.4 400 for a header that would override framing, routing or signature', async () => {
    const refused = `Host Content-Length Transfer-Encoding Connection Keep-Alive Proxy-Authorization TE Trailer Upgrade
    Expect HTTP2-Settings Content-Encoding webhook-id Webhook-Signature Forwarded X-Forwarded-For Via Metadata
    Metadata-Flavor X-aws-ec2-metadata-token X-Google-Metadata-Request X-Real-IP True-Client-IP CF-Connecting-IP
    X-Client-IP X-Original-URL X-Rewrite-URL X-HTTP-Method-Override`
    for (const name of refused.split(/\s+/)) {
      const answer = await create({ callback_url: URL, callback_headers: { [name]: 'x' } })
      invalid(answer, new RegExp(`^jobs\\[0\\]\\.callback\\.callback_headers\\.${name}: cannot be set`))
    }
  })

  test('2.4 400 for a header that HTTP cannot carry', async () => {
    const wrong = {
      '': 'x',
      'a b': 'x',
      'a:b': 'x',
      'a\nb': 'x',
      'X-A': 'a\r\nHost: b',
      'X-B': '\u0000',
      'X-C': 'é',
    }
    for (const [name, value] of Object.entries(wrong)) {
      invalid(await create({ callback_url: URL, callback_headers: { [name]: value } }), /callback_headers/)
    }
    invalid(
      await create({ callback_url: URL, callback_headers: { 'Content-Type': 'text/plain' } }),
      /Content-Type: must be application\/json/,
    )
  })

  test('2.4 a callback is stored with its address, its headers, and {} if there is no payload', async () => {
    const headers = { 'X-Order': '17', Authorization: 'Bearer abc', 'content-type': 'application/json' }
    enqueued(await create({ callback_url: 'HTTPS://Example.com/a b?q=1', callback_headers: headers }), 1)
    assert.deepEqual(await stored(), { url: 'https://example.com/a%20b?q=1', headers, payloadJson: '{}' })
    enqueued(await create({ callback_url: URL, callback_headers: {}, callback_payload: {} }), 1)
    assert.deepEqual(await stored(), { url: URL, headers: {}, payloadJson: '{}' })
    enqueued(await create(undefined), 1)
    assert.equal(await stored(), null)
  })

  test('2.4 callback_payload is stored as it was sent, to the last digit and escape', async () => {
    const payload =
      '{"id":9007199254740993,"neg":-9223372036854775808,"huge":1e400,"tiny":1E-400,"zero":-0,"one":1.0,' +
      '"long":0.12345678901234567890123,"text":"é 👋 \\u0000 \\ud800 \\u2028","empty":{},"list":[1,[2.50,null,true]],' +
      '"__proto__":{"a":1},"constructor":{"prototype":1},"a.b":"","":"no name"}'
    const body = JSON.stringify([
      job({ callback: { callback_url: URL, callback_payload: { it: 0 } } }),
      job(),
    ])
    enqueued(await stage.parley.post(BATCHES, body.replace('{"it":0}', payload), key), 2)
    const [callback, none] = (await database.callbacks()).slice(-2)
    assert.deepEqual(callback, { url: URL, headers: {}, payloadJson: payload })
    assert.equal(none, null)
  })

  test('2.4 each payload of a batch goes to its own job', async () => {
    const jobs = [1, 2, 3].map((n) => job({ callback: { callback_url: URL, callback_payload: { n } } }))
    enqueued(await stage.parley.post(BATCHES, jobs, key), 3)
    const expected = [1, 2, 3].map((n) => ({ url: URL, headers: {}, payloadJson: `{"n":${n}}` }))
    assert.deepEqual((await database.callbacks()).slice(-3), expected)
  })

  test('6 the outcome and the callback that is owed are stored together', async (t) => {
    const { parley } = await startStage(t)
    const own = await parley.key()
    const batch = [job({ callback: { callback_url: URL } }), job()]
    const [id = '', other = ''] = enqueued(await parley.post(BATCHES, batch, own), 2)
    await parley.ended(id, own)
    await parley.ended(other, own)
    const owed = await (await openDatabase(t, parley)).owed()
    assert.deepEqual(owed, [{ jobId: id, account: 'user_max' }])
  })
})
