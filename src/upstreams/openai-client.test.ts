/** Tests calls to OpenAI-compatible servers: the requests sent, and the replies for refusals and error statuses. */
import assert from 'node:assert/strict'
import { createServer } from 'node:https'
import { describe, it, type TestContext } from 'node:test'
import { reply, type Script } from '../../test/model-server.ts'
import { listen } from '../../test/support/listen.ts'
import {
  ask,
  clientOf,
  errorOf,
  KEY,
  never,
  prompt,
  promptOf,
  startClient,
} from '../../test/support/openai-client-setup.ts'
import { type Certificate, selfSigned } from '../../test/support/self-signed.ts'
import type { Message } from '../job/job.ts'
import { LARGE_ANSWER_BYTES } from './call.ts'

/** Makes a call, and returns the request that the server received. */
async function sent(t: TestContext, options: Parameters<typeof startClient>[1], what = prompt()) {
  const { server, call } = await startClient(t, options)
  await call(what)
  const [request] = server.requests
  assert.ok(request)
  return request
}

describe('a call', () => {
  it('posts to chat/completions with the key, not streamed', async (t) => {
    const { server, client } = await startClient(t)
    const got = await ask(client, 'gpt-5', prompt('Hello'), never)
    assert.deepEqual(got, { kind: 'answer', text: 'echo: Hello', tokens: { input: 5, output: 11 } })
    const request = server.requests[0]
    assert.deepEqual([request?.method, request?.path], ['POST', '/v1/chat/completions'])
    assert.equal(request?.headers.authorization, `Bearer ${KEY}`)
    assert.equal(request?.headers['content-type'], 'application/json')
    assert.deepEqual(request?.body, { model: 'gpt-5', messages: [{ role: 'user', content: 'Hello' }] })
  })

  it('has the headers of the settings, which replace ours of the same name, and no key if there is none', async (t) => {
    const settings = { 'Api-Key': 'k1', 'User-Agent': 'gateway-client' }
    const { headers } = await sent(t, { headers: settings, apiKey: null })
    assert.deepEqual(
      [headers['api-key'], headers['user-agent'], headers.authorization, headers['content-type']],
      ['k1', 'gateway-client', undefined, 'application/json'],
    )
  })

  it('has the parameters of the settings, which join those of the address and replace those of the same name', async (t) => {
    const { server, client } = await startClient(t)
    const own = clientOf(
      { query: { 'api-version': '2024-10-21', code: 'a&b' } },
      { base_url: `${server.baseUrl}/?api-version=7&of=address` },
    )
    t.after(() => own.close())
    for (const each of [client, own]) await ask(each, 'm', prompt(), never)
    assert.deepEqual(
      server.requests.map(({ path }) => path),
      ['/v1/chat/completions', '/v1/chat/completions?api-version=2024-10-21&of=address&code=a%26b'],
    )
  })

  it('has the fields of the body of the settings after those of the request', async (t) => {
    const settings = { body: { max_tokens: 50, metadata: { team: 'a"b' } } }
    const { body } = await sent(t, { settings })
    assert.deepEqual(body, { model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...settings.body })
  })

  it('sends all four roles in the order of the caller', async (t) => {
    const messages: Message[] = [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: '' },
      { role: 'developer', content: 'three' },
      { role: 'system', content: 'four \u{1F600} \ud800 "\n' },
      { role: 'user', content: 'five' },
      { role: 'developer', content: 'six' },
    ]
    for (const roles of ['native', 'developer_as_system'] as const) {
      const { body } = await sent(t, { settings: { roles } }, promptOf(messages))
      const expected = messages.map(({ role, content }) =>
        role === 'developer' && roles !== 'native' ? { role: 'system', content } : { role, content },
      )
      assert.deepEqual(body.messages, expected, roles)
    }
  })

  it('uses as many connections as concurrent calls, each for one call at a time', async (t) => {
    const settings = { max_concurrency: 8 }
    const { server, call } = await startClient(t, { script: () => reply.stall(), settings })
    const asked = Array.from({ length: 8 }, () => call())
    await server.received(8)
    assert.equal(server.connections(), 8)
    server.release()
    await Promise.all(asked)
    server.script = () => reply.echo()
    for (let n = 0; n < 8; n++) await call()
    assert.equal(server.connections(), 8)
  })

  const newer = { max_tokens_as: 'max_completion_tokens' }
  // Older versions of Azure's API reject `developer`; all versions accept `system`.
  const azure = { roles: 'developer_as_system', ...newer }
  for (const [base_url, format] of [
    ['https://eu.api.openai.com/v1', { roles: 'native', ...newer }],
    ['https://a.openai.azure.com/openai/deployments/b', azure],
    ['https://a.services.ai.azure.com/openai/v1', azure],
    ['https://a.services.ai.azure.com/models', { roles: 'merged_system' }],
    ['https://models.example.com/v1', { roles: 'merged_system' }],
  ] as const) {
    it(`is in the format that ${base_url} supports, if the settings do not name one`, () => {
      const what = { ...promptOf([{ role: 'developer', content: 'a' }]), optionsJson: '{"max_tokens":5}' }
      assert.deepEqual(clientOf({}, { base_url }).requestFormat('m', what), format)
    })
  }

  it('rejects a key that a header cannot carry', () => {
    const make = () => clientOf({ apiKey: 'a\nb' }, { base_url: 'http://127.0.0.1:1/v1' })
    assert.throws(make, /key of upstream upstream/)
  })

  it('trusts a server with a certificate of its own only with that certificate', async (t) => {
    const certificate = selfSigned([], ['127.0.0.1'])
    const settings = { base_url: await tlsServer(t, certificate) }
    const trusting = await startClient(t, { settings, ca: certificate.cert })
    assert.equal((await trusting.call()).kind, 'answer')
    for (const ca of [null, selfSigned([], ['127.0.0.1']).cert]) {
      const { message } = await errorOf(t, () => undefined, { settings, ca })
      assert.match(message, /DEPTH_ZERO_SELF_SIGNED_CERT/)
    }
  })
})

async function tlsServer(t: TestContext, certificate: Certificate): Promise<string> {
  const completion = { choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] }
  const server = createServer(certificate, (_request, response) => response.end(JSON.stringify(completion)))
  return `https://127.0.0.1:${await listen(t, server)}/v1`
}

describe('a check', () => {
  it('is answered by a list of models of any length', async (t) => {
    const script = () => reply.status(200, { body: 'x'.repeat(5000) })
    const { client } = await startClient(t, { script, maxAnswerBytes: 1000 })
    assert.equal(await client.check(), null)
  })
})

describe('a refusal', () => {
  const coded = (code: string) => () => reply.status(400, { body: { error: { message: 'Not this.', code } } })
  const cases: [string, Script, RegExp, number][] = [
    ['message.refusal', () => reply.refusal('No, never.'), /No, never\./, 200],
    ['finish_reason content_filter', () => reply.contentFilter('half'), /filter/, 200],
    ['an error coded content_filter', coded('content_filter'), /Not this\./, 400],
    ['an error coded content_policy_violation', coded('content_policy_violation'), /Not this\./, 400],
  ]
  for (const [name, script, message, status] of cases) {
    it(`comes from ${name}`, async (t) => {
      const got = await (await startClient(t, { script })).call()
      assert.ok(got.kind === 'refused')
      assert.match(got.message, message)
      assert.equal(got.status, status)
    })
  }

  it('counts the tokens it used', async (t) => {
    const got = await (await startClient(t, { script: () => reply.refusal('1234') })).call(prompt('12345'))
    assert.deepEqual(got.kind === 'refused' && got.tokens, { input: 5, output: 4 })
  })
})

describe('an error status', () => {
  for (const status of [408, 409, 424, 429, 498, 500, 502, 503, 529]) {
    it(`${status} is retryable`, async (t) => {
      assert.deepEqual(await errorOf(t, () => reply.status(status)), {
        kind: 'error',
        retryable: true,
        retryAfterMs: null,
        status,
        message: `It answers ${status}.`,
        code: 'error',
        connection: null,
        rejectsJsonMode: false,
        aborted: false,
        timedOut: false,
      })
    })
  }
  for (const code of [301, 400, 401, 403, 404, 413, 422]) {
    it(`${code} is not retryable`, async (t) => {
      const { retryable, status } = await errorOf(t, () => reply.status(code))
      assert.deepEqual([retryable, status], [false, code])
    })
  }

  const waits: readonly [name: string, Record<string, string>, number | null][] = [
    ['seconds', { 'retry-after': '7' }, 7000],
    ['a fraction of a second', { 'retry-after': '0.5' }, 500],
    ['milliseconds', { 'retry-after': '7', 'retry-after-ms': '1234' }, 1234],
    ['what is neither', { 'retry-after': 'soon' }, null],
  ]
  for (const [name, headers, ms] of waits) {
    it(`returns Retry-After as ${name}`, async (t) => {
      assert.equal((await errorOf(t, () => reply.status(429, { headers }))).retryAfterMs, ms)
    })
  }

  it('returns Retry-After as a date', async (t) => {
    const { server, clock, fail } = await startClient(t)
    for (const [inMs, ms] of [
      [30_000, 30_000],
      [-30_000, 0],
    ] as const) {
      const headers = { 'retry-after': new Date(clock.nowMs() + inMs).toUTCString() }
      server.script = () => reply.status(429, { headers })
      assert.equal((await fail()).retryAfterMs, ms)
    }
  })

  it('returns the delay in the details of an error of Google, which has no header', async (t) => {
    const delayOf = async (details: unknown, headers = {}) => {
      const error = { code: 429, message: 'You exceeded your current quota.', details }
      return (await errorOf(t, () => reply.status(429, { headers, body: [{ error }] }))).retryAfterMs
    }
    const help = { '@type': 'type.googleapis.com/google.rpc.Help', links: [] }
    const retry = (retryDelay: unknown) => ({
      '@type': 'type.googleapis.com/google.rpc.RetryInfo',
      retryDelay,
    })
    assert.equal(await delayOf([help, retry('34.0712s')]), 34_072)
    assert.equal(await delayOf([retry('5s')]), 5000)
    assert.equal(await delayOf([retry('5s')], { 'retry-after': '7' }), 7000, 'the header comes first')
    for (const details of [[retry(5), retry('soon'), null, help], [], null, 'text', { retryDelay: '5s' }])
      assert.equal(await delayOf(details), null)
  })

  it('never shows the key or another secret in part, even if the server echoes it, in large errors as in small', async (t) => {
    const secrets = ['key-0123456789', 'key-01234']
    for (const rest of ['!', `! ${'x'.repeat(LARGE_ANSWER_BYTES)}`]) {
      const echo: Script = ({ headers }) => {
        const message = `Bad ${KEY} in Authorization: ${headers.authorization}, key-0123456789, key-01234${rest}`
        return reply.status(200, { body: { error: { message } } })
      }
      const { message } = await errorOf(t, echo, { secrets: [KEY, ...secrets] })
      assert.match(message, /^Bad \*\*\* in Authorization: (Bearer )?\*\*\*, \*\*\*, \*\*\*!/)
    }
    const { message } = await errorOf(t, () =>
      reply.status(401, { body: { error: { message: `Bad ${KEY}` } } }),
    )
    assert.equal(message, 'Bad ***', 'the key is a secret without being listed')
  })

  it('ignores an error body that is too long', async (t) => {
    const script = () => reply.status(500, { body: 'x'.repeat(10_000_000) })
    const { server, fail } = await startClient(t, { script })
    const { message, retryable } = await fail()
    assert.deepEqual([message, retryable], ['The model server responded with 500.', true])
    assert.equal(await server.requests[0]?.ended, 'cut')
  })
})
