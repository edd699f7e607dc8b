/** Errors below /v1: in the shape and with the headers that OpenAI's clients act on. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN } from '../parley.ts'
import { openaiOf } from './official-client.ts'

const HELLO = { model: 'gpt-5-mini', messages: [{ role: 'user' as const, content: 'Hello' }] }
const CHAT = '/v1/chat/completions'

type Thrown<T> = new (...args: never) => T

async function thrown<T>(promise: Promise<unknown>, type: Thrown<T>): Promise<T> {
  const error = await promise.then(
    () => assert.fail('nothing was thrown'),
    (error: unknown) => error,
  )
  assert.ok(error instanceof type, `${error}`)
  return error
}

onEachStore(() => {
  test('a field that is wrong or not supported is named in param', async (t) => {
    const { parley, models } = await startStage(t)
    const openai = openaiOf(parley, await parley.key())
    const wrong: [string, Record<string, unknown>][] = [
      ['stream', { stream: true }],
      ['tools', { tools: [{ type: 'function', function: { name: 'f' } }] }],
      // The fields that follow from a stream or from tools come first in some clients.
      ['stream', { top_k: 3, stream_options: { include_usage: true }, stream: true }],
      ['tools', { tool_choice: 'required', tools: [{ type: 'function', function: { name: 'f' } }] }],
      ['n', { n: 2 }],
      ['logprobs', { logprobs: true }],
      ['top_k', { top_k: 3 }],
      ['temperature', { temperature: 3 }],
      ['max_completion_tokens', { max_completion_tokens: 0 }],
      ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }],
      [
        'messages[2].name',
        {
          messages: [
            { role: 'system', name: 'a', content: 'x' },
            { role: 'user', name: 'b', content: 'x' },
            { role: 'user', content: 'x' },
          ],
        },
      ],
      ['messages[0].role', { messages: [{ role: 'tool', content: 'x' }] }],
      ['messages', { messages: [{ role: 'system', content: 'x' }] }],
      ['response_format.type', { response_format: { type: 'grammar' } }],
      [
        'response_format.json_schema.schema.type',
        { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 7 } } } },
      ],
    ]
    for (const [param, over] of wrong) {
      const body = { ...HELLO, ...over } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming
      const error = await thrown(openai.chat.completions.create(body), OpenAI.BadRequestError)
      assert.deepEqual([error.param, error.type], [param, 'invalid_request_error'])
      assert.match(error.requestID ?? '', /./)
    }
    const neutral = {
      ...HELLO,
      stream: false as const,
      n: 1,
      tools: [],
      tool_choice: 'auto' as const,
      logprobs: false,
      logit_bias: {},
      parallel_tool_calls: true,
      modalities: ['text' as const],
      verbosity: 'medium' as const,
      temperature: null,
      stop: null,
      metadata: { a: 'b' },
      user: 'me',
      store: true,
      prompt_cache_key: 'a',
      // Fields of this prefix that newer clients may send are ignored, too.
      prompt_cache_later: { any: true },
    }
    const messages = ['Ada', 'agent', 'Ada'].map((name, at) => {
      return { role: at % 2 === 0 ? ('user' as const) : ('assistant' as const), name, content: name }
    })
    await openai.chat.completions.create({ ...neutral, messages })
    const { model: _, messages: received, ...sent } = models.requests[0]?.body ?? assert.fail('not called')
    assert.deepEqual(sent, {})
    assert.deepEqual(
      received,
      messages.map(({ role, content }) => ({ role, content })),
    )
  })

  test('keys and admin tokens are never confused', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    for (const apiKey of ['nonsense', ADMIN_TOKEN, '']) {
      const error = await thrown(openaiOf(parley, apiKey || 'x').models.list(), OpenAI.AuthenticationError)
      assert.equal(error.code, 'invalid_api_key')
      assert.match(error.message, /Authorization: Bearer/)
    }
    assert.equal((await parley.get('/v1/models', key)).status, 401)
    const bearer = { authorization: `Bearer ${key}` }
    assert.equal((await parley.get('/api/v1/me', undefined, bearer)).status, 401)
    assert.equal((await parley.get('/admin/api/accounts', undefined, bearer)).status, 401)
    assert.equal((await parley.get('/v1/models', undefined, bearer)).status, 200)
  })

  test('requests without a route and broken ones get the shape of OpenAI', async (t) => {
    const { parley } = await startStage(t)
    const headers = { authorization: `Bearer ${await parley.key()}`, 'content-type': 'application/json' }
    const ask = (path: string, init: RequestInit) => parley.request(path, { headers, ...init })
    const answers = {
      404: await ask('/v1/embeddings', { method: 'POST', body: '{}' }),
      405: await ask(CHAT, { method: 'PUT', body: '{}' }),
      413: await ask(CHAT, { method: 'POST', body: JSON.stringify('x'.repeat(12_000_000)) }),
      415: await ask(CHAT, {
        method: 'POST',
        body: 'x',
        headers: { ...headers, 'content-type': 'text/plain' },
      }),
      431: await ask('/v1/models', { headers: { ...headers, 'x-long': 'x'.repeat(20_000) } }),
      400: await ask(CHAT, { method: 'POST', body: '{' }),
    }
    for (const [status, answer] of Object.entries(answers)) {
      assert.equal(answer.status, Number(status))
      assert.deepEqual(Object.keys(answer.body.error), ['message', 'type', 'param', 'code'])
      assert.equal(answer.body.error.type, 'invalid_request_error')
      assert.match(answer.headers.get('x-request-id') ?? '', /./)
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/)
    }
    assert.equal((await parley.get('/v2')).body.success, false)
  })

  test('failed jobs are not retried by the client', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.status(400) })
    const openai = openaiOf(parley, await parley.key())
    const error = await thrown(openai.chat.completions.create(HELLO), OpenAI.InternalServerError)
    assert.deepEqual([error.status, error.code], [502, 'model_error'])
    assert.equal(models.completions().length, 1)
  })

  test('an unknown model is a 404, one that the tier may not use a 403', async (t) => {
    const { parley } = await startStage(t)
    const openai = openaiOf(parley, await parley.key('user_free'))
    const ask = (model: string) => openai.chat.completions.create({ ...HELLO, model })
    assert.equal((await thrown(ask('gpt-9'), OpenAI.NotFoundError)).code, 'model_not_found')
    assert.equal((await thrown(ask('gpt-5'), OpenAI.PermissionDeniedError)).param, 'model')
  })

  test('caps and quotas are 429 insufficient_quota, rates 429 to be retried, suspension is 403', async (t) => {
    const settings = {
      tiers: {
        user_free: { creates_per_minute: 1, reads_per_minute: 1 },
        user_go: { max_open_jobs: 1 },
        user_pro: { max_monthly_jobs: 1 },
      },
    }
    const { parley, models, clock } = await startStage(t, { settings })
    const clientOf = async (tier: 'user_free' | 'user_go' | 'user_pro') =>
      openaiOf(parley, await parley.key(tier), { maxRetries: 0 })
    const free = await clientOf('user_free')
    await free.chat.completions.create(HELLO)
    const rated = await thrown(free.chat.completions.create(HELLO), OpenAI.RateLimitError)
    assert.deepEqual([rated.code, rated.headers?.get('x-should-retry')], ['rate_limit_exceeded', 'true'])
    assert.ok(Number(rated.headers?.get('retry-after-ms')) > 0)
    await free.models.list()
    assert.equal((await thrown(free.models.list(), OpenAI.RateLimitError)).code, 'rate_limit_exceeded')
    const pro = await clientOf('user_pro')
    await pro.chat.completions.create(HELLO)
    models.script = () => reply.stall()
    const go = await clientOf('user_go')
    const open = go.chat.completions.create(HELLO)
    await models.received(3)
    for (const client of [pro, go]) {
      const error = await thrown(client.chat.completions.create(HELLO), OpenAI.RateLimitError)
      assert.deepEqual([error.code, error.type], ['insufficient_quota', 'insufficient_quota'])
      assert.equal(error.headers?.get('x-should-retry'), 'false')
    }
    models.release()
    await open
    await parley.store.suspend('user_go', clock.nowMs())
    // A key is looked up at most every two seconds.
    clock.advance(2000)
    await thrown(go.chat.completions.create(HELLO), OpenAI.PermissionDeniedError)
  })

  test('an Idempotency-Key with another body is a conflict that is not retried', async (t) => {
    const { parley } = await startStage(t)
    const openai = openaiOf(parley, await parley.key())
    const options = { headers: { 'idempotency-key': 'one' } }
    const first = await openai.chat.completions.create(HELLO, options)
    assert.equal((await openai.chat.completions.create(HELLO, options)).id, first.id)
    const other = openai.chat.completions.create({ ...HELLO, temperature: 0 }, options)
    assert.equal((await thrown(other, OpenAI.ConflictError)).headers?.get('x-should-retry'), 'false')
  })

  test('pages of allowed origins may send what the client sends, and read when to retry', async (t) => {
    const { parley } = await startStage(t, { settings: { cors: { origins: ['https://app.example'] } } })
    const asked = 'authorization,content-type,x-stainless-retry-count'
    const headers = { origin: 'https://app.example', 'access-control-request-headers': asked }
    const preflight = (path: string) =>
      parley.request(path, {
        method: 'OPTIONS',
        headers: { ...headers, 'access-control-request-method': 'POST' },
      })
    const allowed = (await preflight(CHAT)).headers
    assert.equal(allowed.get('access-control-allow-headers'), asked)
    assert.match(allowed.get('access-control-expose-headers') ?? '', /x-should-retry, retry-after-ms/)
    const native = (await preflight('/api/v1/messages')).headers
    assert.doesNotMatch(native.get('access-control-allow-headers') ?? '', /authorization/)
  })
})
