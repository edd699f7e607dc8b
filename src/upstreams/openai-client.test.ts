/** Calls to OpenAI-compatible servers: the requests sent, and the replies for refusals and error statuses. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply, type Script, startModelServer } from '../../test/model-server.ts'
import {
  ask,
  errorOf,
  isError,
  KEY,
  never,
  prompt,
  readHere,
  startClient,
} from '../../test/support/openai-client-setup.ts'
import { UPSTREAM_DEFAULTS } from '../config/settings.ts'
import type { Message } from '../job/job.ts'
import { OpenAiClient } from './openai-client.ts'
import { LARGE_ANSWER_BYTES } from './response-body.ts'

describe('a call', () => {
  it('posts to chat/completions with the key, not streamed', async (t) => {
    const { server, client } = await startClient(t)
    const got = await ask(client, 'gpt-5', prompt('Hello'), never)
    assert.deepEqual(got, { kind: 'answer', text: 'echo: Hello', tokens: { input: 5, output: 11 } })
    const request = server.requests[0]
    assert.equal(request?.method, 'POST')
    assert.equal(request?.path, '/v1/chat/completions')
    assert.equal(request?.headers.authorization, `Bearer ${KEY}`)
    assert.equal(request?.headers['content-type'], 'application/json')
    assert.deepEqual(request?.body, { model: 'gpt-5', messages: [{ role: 'user', content: 'Hello' }] })
  })

  it('sends no Authorization header without a key, and keeps the query of the base URL', async (t) => {
    const server = await startModelServer()
    const settings = { ...UPSTREAM_DEFAULTS, base_url: `${server.baseUrl}/?api-version=7` }
    const client = new OpenAiClient({
      name: 'u',
      apiKey: null,
      clock: new FakeClock(),
      readLarge: readHere,
      settings,
    })
    t.after(async () => {
      await client.close()
      await server.close()
    })
    await ask(client, 'm', prompt(), never)
    assert.equal(server.requests[0]?.headers.authorization, undefined)
    assert.equal(server.requests[0]?.path, '/v1/chat/completions?api-version=7')
  })

  it('sends all four roles in the order of the caller', async (t) => {
    const { server, client } = await startClient(t, { settings: { roles: 'native' } })
    const messages: Message[] = [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: '' },
      { role: 'developer', content: 'three' },
      { role: 'system', content: 'four \u{1F600} \ud800 "\n' },
      { role: 'user', content: 'five' },
      { role: 'developer', content: 'six' },
    ]
    await ask(client, 'm', { ...prompt(), messagesJson: JSON.stringify(messages) }, never)
    assert.deepEqual(server.requests[0]?.body.messages, messages)
  })

  it('sends developer as system if the server does not support developer', async (t) => {
    const { server, client } = await startClient(t, { settings: { roles: 'developer_as_system' } })
    const messages: Message[] = [
      { role: 'developer', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'system', content: 'c' },
    ]
    await ask(client, 'm', { ...prompt(), messagesJson: JSON.stringify(messages) }, never)
    assert.deepEqual(server.requests[0]?.body.messages, [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'system', content: 'c' },
    ])
  })

  it('uses as many connections as concurrent calls, each for one call at a time', async (t) => {
    const { server, client } = await startClient(t, {
      script: () => reply.stall(),
      settings: { max_concurrency: 8 },
    })
    const asked = Array.from({ length: 8 }, (_, n) => ask(client, 'm', prompt(String(n)), never))
    await server.received(8)
    assert.equal(server.connections(), 8)
    server.release()
    await Promise.all(asked)
    server.script = () => reply.echo()
    for (let n = 0; n < 8; n++) await ask(client, 'm', prompt(), never)
    assert.equal(server.connections(), 8)
  })

  it('is in the format that its host supports, if the settings do not name one', () => {
    const formatAt = (base_url: string) => {
      const settings = { ...UPSTREAM_DEFAULTS, base_url }
      const options = { name: 'u', apiKey: null, clock: new FakeClock(), readLarge: readHere, settings }
      const asked = { ...prompt(), messagesJson: '[{"role":"developer","content":"a"}]' }
      return new OpenAiClient(options).requestFormat('m', { ...asked, optionsJson: '{"max_tokens":5}' })
    }
    const newer = { max_tokens_as: 'max_completion_tokens' }
    assert.deepEqual(formatAt('https://eu.api.openai.com/v1'), { roles: 'native', ...newer })
    // Older versions of Azure's API reject `developer`; all versions accept `system`.
    const azure = { roles: 'developer_as_system', ...newer }
    assert.deepEqual(formatAt('https://a.openai.azure.com/openai/deployments/b'), azure)
    assert.deepEqual(formatAt('https://a.services.ai.azure.com/openai/v1'), azure)
    assert.deepEqual(formatAt('https://a.services.ai.azure.com/models'), { roles: 'merged_system' })
    assert.deepEqual(formatAt('https://models.example.com/v1'), { roles: 'merged_system' })
  })

  it('rejects a key that a header cannot carry', () => {
    const settings = { ...UPSTREAM_DEFAULTS, base_url: 'http://127.0.0.1:1/v1' }
    const make = () =>
      new OpenAiClient({ name: 'u', apiKey: 'a\nb', clock: new FakeClock(), readLarge: readHere, settings })
    assert.throws(make, /key of upstream u/)
  })
})

describe('a check', () => {
  it('is answered by a list of models of any length', async (t) => {
    const { client } = await startClient(t, {
      script: () => reply.status(200, { body: 'x'.repeat(5000) }),
      maxAnswerBytes: 1000,
    })
    assert.equal(await client.check(), null)
  })
})

describe('a refusal', () => {
  const cases: [string, Script, string, number][] = [
    ['message.refusal', () => reply.refusal('No, never.'), 'No, never.', 200],
    ['finish_reason content_filter', () => reply.contentFilter('half'), 'filter', 200],
    ...['content_filter', 'content_policy_violation'].map((code): [string, Script, string, number] => [
      `an error coded ${code}`,
      () => reply.status(400, { body: { error: { message: 'Not this.', code } } }),
      'Not this.',
      400,
    ]),
  ]
  for (const [name, script, message, status] of cases) {
    it(`comes from ${name}`, async (t) => {
      const { client } = await startClient(t, { script })
      const got = await ask(client, 'm', prompt(), never)
      assert.equal(got.kind, 'refused')
      if (got.kind === 'refused') {
        assert.match(got.message, new RegExp(message))
        assert.equal(got.status, status)
      }
    })
  }

  it('counts the tokens it used', async (t) => {
    const { client } = await startClient(t, { script: () => reply.refusal('1234') })
    const got = await ask(client, 'm', prompt('12345'), never)
    assert.deepEqual(got.kind === 'refused' && got.tokens, { input: 5, output: 4 })
  })
})

describe('an error status', () => {
  for (const status of [408, 409, 424, 429, 498, 500, 502, 503, 529]) {
    it(`${status} is retryable`, async (t) => {
      const got = await errorOf(t, () => reply.status(status))
      assert.deepEqual(got, {
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
  for (const status of [301, 400, 401, 403, 404, 413, 422]) {
    it(`${status} is not retryable`, async (t) => {
      const got = await errorOf(t, () => reply.status(status))
      assert.equal(got.retryable, false)
      assert.equal(got.status, status)
    })
  }

  it('returns Retry-After in seconds, as a date or in milliseconds', async (t) => {
    const { server, client, clock } = await startClient(t)
    const waitOf = async (headers: Record<string, string>) => {
      server.script = () => reply.status(429, { headers })
      const got = await ask(client, 'm', prompt(), never)
      isError(got)
      return got.retryAfterMs
    }
    assert.equal(await waitOf({ 'retry-after': '7' }), 7000)
    assert.equal(await waitOf({ 'retry-after': '0.5' }), 500)
    assert.equal(await waitOf({ 'retry-after': new Date(clock.nowMs() + 30_000).toUTCString() }), 30_000)
    assert.equal(await waitOf({ 'retry-after': new Date(clock.nowMs() - 30_000).toUTCString() }), 0)
    assert.equal(await waitOf({ 'retry-after': '7', 'retry-after-ms': '1234' }), 1234)
    assert.equal(await waitOf({ 'retry-after': 'soon' }), null)
    assert.equal(await waitOf({}), null)
  })

  it('returns the delay in the details of an error of Google, which has no header', async (t) => {
    const delayOf = async (details: unknown) => {
      const error = { code: 429, message: 'You exceeded your current quota.', details }
      return (await errorOf(t, () => reply.status(429, { body: [{ error }] }))).retryAfterMs
    }
    const help = { '@type': 'type.googleapis.com/google.rpc.Help', links: [] }
    const retry = (retryDelay: unknown) => ({
      '@type': 'type.googleapis.com/google.rpc.RetryInfo',
      retryDelay,
    })
    assert.equal(await delayOf([help, retry('34.0712s')]), 34_072)
    assert.equal(await delayOf([retry('5s')]), 5000)
    for (const details of [[retry(5), retry('soon'), null, help], [], null, 'text', { retryDelay: '5s' }])
      assert.equal(await delayOf(details), null)
  })

  it('never shows the key, even if the server echoes it', async (t) => {
    const echo: Script = (request) =>
      reply.status(401, {
        body: { error: { message: `Bad ${KEY} in Authorization: ${request.headers.authorization}!` } },
      })
    const got = await errorOf(t, echo)
    assert.ok(!got.message.includes('0123456789'), got.message)
    assert.match(got.message, /^Bad \*\*\* in Authorization/)
  })

  it('never shows the key in a large error either', async (t) => {
    const message = `Bad ${KEY}! ${'x'.repeat(LARGE_ANSWER_BYTES)}`
    const got = await errorOf(t, () => reply.status(200, { body: { error: { message } } }))
    assert.match(got.message, /^Bad \*\*\*! x/)
  })

  it('prefers Retry-After to the delay in the details', async (t) => {
    const details = [{ retryDelay: '5s' }]
    const got = await errorOf(t, () =>
      reply.status(429, { headers: { 'retry-after': '7' }, body: { error: { message: 'Slow', details } } }),
    )
    assert.equal(got.retryAfterMs, 7000)
  })

  it('ignores an error body that is too long', async (t) => {
    const { server, client } = await startClient(t, {
      script: () => reply.status(500, { body: 'x'.repeat(10_000_000) }),
    })
    const got = await ask(client, 'm', prompt(), never)
    isError(got)
    assert.equal(got.message, 'The model server responded with 500.')
    assert.equal(got.retryable, true)
    assert.equal(await server.requests[0]?.ended, 'cut')
  })
})
