/** Tests what `parley listen` does with forged POSTs and with requests that are not callbacks, and its options. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { eventually } from '../support/eventually.ts'
import { type Callback, post, signedCallback, startListener } from './listener.ts'
import { type Mistake, reportEach, reported } from './mistakes.ts'
import { installation } from './server-process.ts'

const secret = makeSecret()

const place = await installation({ after })
const listening = (...args: string[]) => startListener(place, ['--secret', secret, ...args])
/** Tests share this listener if it does not matter what it has received before. */
const shared = await listening()

const without = (name: string, { body, headers: { [name]: _, ...headers } }: Callback): Callback => ({
  body,
  headers,
})
const withHeader = (name: string, value: string, { body, headers }: Callback): Callback => ({
  body,
  headers: { ...headers, [name]: value },
})
const changed = ({ body, headers }: Callback): Callback => ({ body: body.replace('ö', 'o'), headers })

const forged: readonly { what: string; callback: () => Callback; says: RegExp }[] = [
  {
    what: 'a wrong secret',
    callback: () => signedCallback(makeSecret()),
    says: /no signature matches: a secret other than the secret of --secret signed it/,
  },
  {
    what: 'a changed byte',
    callback: () => changed(signedCallback(secret)),
    says: /no signature matches: .*was changed in transit/,
  },
  {
    what: 'a changed id',
    callback: () => withHeader('webhook-id', 'another', signedCallback(secret)),
    says: /no signature matches: .*webhook-id .*was changed/,
  },
  {
    what: 'a changed time',
    callback: () =>
      withHeader('webhook-timestamp', String(Math.floor(Date.now() / 1000) - 60), signedCallback(secret)),
    says: /no signature matches: .*webhook-timestamp was changed/,
  },
  {
    what: 'an old timestamp',
    callback: () => signedCallback(secret, { ageS: 310 }),
    says: /old timestamp: webhook-timestamp is 31\d s in the past, at most 300 s are allowed/,
  },
  {
    what: 'a timestamp to come',
    callback: () => signedCallback(secret, { ageS: -400 }),
    says: /webhook-timestamp is (39\d|400) s in the future, at most 300 s are allowed; the clocks differ/,
  },
  {
    what: 'a timestamp that is none',
    callback: () => withHeader('webhook-timestamp', 'now', signedCallback(secret)),
    says: /webhook-timestamp is not a number of seconds/,
  },
  {
    what: 'no signature',
    callback: () => without('webhook-signature', signedCallback(secret)),
    says: /the header webhook-signature is missing/,
  },
  {
    what: 'no header of the three',
    callback: () => ({ body: '{"job_id":"a"}', headers: { 'content-type': 'application/json' } }),
    says: /the headers webhook-id, webhook-timestamp, webhook-signature are missing/,
  },
]

test('a forged callback gets a 401 and a clear explanation', async (t) => {
  const { url, program } = await listening()
  for (const { what, callback, says } of forged) {
    await t.test(what, async () => {
      const before = program.stdout.length
      assert.equal(await post(url, callback()), 401)
      const said = await eventually(
        () => program.stdout.slice(before),
        (text) => /NOT VERIFIED: .*\n(?: {10}.*\n)+/.test(text),
      )
      assert.match(said, says)
    })
  }
})

test('after one that fitted, a mismatch is said to be a change', async () => {
  const { url, program } = shared
  assert.equal(await post(url, signedCallback([makeSecret(), secret])), 200)
  assert.equal(await post(url, changed(signedCallback(secret))), 401)
  await program.line(
    /although the secret of --secret verified other callbacks: the body, .* was changed in transit, or another/,
  )
})

const noCallbacks: readonly { what: string; init: RequestInit; status: number; says: RegExp }[] = [
  { what: 'GET', init: {}, status: 405, says: /GET \/a: callbacks use POST/ },
  {
    what: 'a form',
    init: { method: 'POST', body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    status: 415,
    says: /POST \/a: Content-Type must be application\/json/,
  },
  { what: 'no JSON', init: json('{"a":'), status: 400, says: /the body is not JSON: Unexpected end/ },
  { what: 'an empty body', init: json(''), status: 400, says: /the body is not JSON/ },
  { what: 'an array', init: json('[1]'), status: 400, says: /the body is not a JSON object/ },
  { what: 'no UTF-8', init: json(Buffer.from([0x22, 0xff, 0x22])), status: 400, says: /not UTF-8/ },
  { what: 'deep nesting', init: json('['.repeat(100_000)), status: 400, says: /more than 1000 levels/ },
  {
    what: 'too long a body',
    init: json(Buffer.alloc(64 * 1024 * 1024 + 1, ' ')),
    status: 413,
    says: /the body is longer than 67108864 bytes/,
  },
]

function json(body: string | Buffer): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': 'application/json; charset=utf-8' } }
}

test('a request that is not a callback is rejected with a line, and the next one is received', async (t) => {
  const { url, program } = shared
  for (const { what, init, status, says } of noCallbacks) {
    await t.test(what, async () => {
      const answer = await fetch(`${url}/a`, init).catch((error: Error) => error)
      // If the client is still sending, its connection may be closed before it reads the response.
      if (!(answer instanceof Error && status === 413)) {
        assert.ok(answer instanceof Response, String(answer))
        assert.equal(answer.status, status)
        assert.match(
          `POST /a: ${await answer.text()}${init.method ? '' : ' GET /a: callbacks use POST'}`,
          says,
        )
      }
      await program.line(new RegExp(`rejected with ${status}: .*${says.source}`))
    })
  }
  assert.equal(await post(url, signedCallback(secret)), 200)
})

test('an event is printed with its type and what it is about', async () => {
  const { url, program } = shared
  const data = { id: 'batch_1' }
  const event = { id: 'evt_1', object: 'event', created_at: 1, type: 'batch.expired', data }
  await post(url, signedCallback(secret, { id: event.id, body: JSON.stringify(event) }))
  await program.line(/verified: batch\.expired: batch_1\n +event +\{"id":"evt_1"/)
})

test('nothing that is printed can steer the terminal', async () => {
  const { url, program } = shared
  const fields = { status: '\u202e\u009b', callback_payload: '\u001b]0;x\u0007' }
  await post(url, signedCallback(secret, { body: JSON.stringify({ job_id: '\u001b[2J', ...fields }) }))
  await program.line(/job \\u001b\[2J \\u202e\\u009b[\s\S]*answered/)
  assert.ok(!/(?!\n)[\p{Cc}\p{Bidi_Control}]/u.test(program.stdout), JSON.stringify(program.stdout))
})

test('--status answers always, with --retry-after next to it', async () => {
  const { url } = await listening('--status', '429', '--retry-after', '7')
  for (const callback of [signedCallback(secret), signedCallback(makeSecret()), signedCallback(secret)]) {
    const answer = await fetch(url, { method: 'POST', ...callback })
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [429, '7'])
    await answer.text()
  }
})

test('--fail-first counts, and --status says with what', async () => {
  const { url } = await listening('--status', '503', '--retry-after', '1', '--fail-first', '2')
  const answers = []
  for (let sent = 0; sent < 3; sent++) {
    const answer = await fetch(url, { method: 'POST', ...signedCallback(secret) })
    answers.push([answer.status, answer.headers.get('retry-after')])
    await answer.text()
  }
  assert.deepEqual(answers, [
    [503, '1'],
    [503, '1'],
    [200, null],
  ])
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`${signal} ends it with 0, also with a connection open`, async () => {
    const { url, program } = await listening()
    assert.equal(await post(url, signedCallback(secret)), 200)
    program.kill(signal)
    assert.deepEqual(await program.exited, { code: 0, signal: null })
    assert.equal(program.stderr, '')
  })
}

test('a port in use is reported, with the remedy', async () => {
  const { port } = new URL(shared.url)
  const second = await place.parley(['listen', '--port', port, '--secret', secret])
  reported(second, new RegExp(`^Port ${port} on 127\\.0\\.0\\.1 is in use\\. .*--port`))
})

const mistakes: readonly Mistake[] = [
  { args: '--port 70000', says: /whole number from 0 to 65535/ },
  { args: '--port 80.5', says: /whole number from 0 to 65535/ },
  { args: '--secret mine', says: /must be whsec_ followed by base64\. `parley accounts secret NAME` prints/ },
  { args: '--secret whsec_!', says: /must be whsec_ followed by base64/ },
  { args: '--status 99', says: /whole number from 200 to 599/ },
  { args: '--status 429 --retry-after soon', says: /whole number from 0 to 86400/ },
  { args: '--retry-after 3', says: /--retry-after needs --status or --fail-first/ },
  { args: '--fail-first 0', says: /whole number from 1/ },
  { args: '--config none.json', says: /none\.json: the configuration file does not exist/ },
  {
    args: '',
    env: { PARLEY_CALLBACK_SECRET: 'mine' },
    says: /PARLEY_CALLBACK_SECRET: must be whsec_ followed by base64/,
  },
  { args: '', env: { DATABASE_URL: 'mysql://x' }, says: /database: must be .*sqlite:PATH/ },
]

test('mistakes are reported on standard error, with exit code 1', (t) =>
  reportEach(t, mistakes, (args, options) => place.parley(['listen', ...args], options)))
