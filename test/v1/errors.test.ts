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
      ['n', { n: 2 }],
      ['logprobs', { logprobs: true }],
      ['top_k', { top_k: 3 }],
      ['temperature', { temperature: 3 }],
      ['max_completion_tokens', { max_completion_tokens: 0 }],
      ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }],
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
    }
    await openai.chat.completions.create(neutral)
    const { model: _, messages: __, ...sent } = models.requests[0]?.body ?? assert.fail('not called')
    assert.deepEqual(sent, {})
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
})
