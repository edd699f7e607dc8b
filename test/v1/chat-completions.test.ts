/** Tests POST /v1/chat/completions and GET /v1/models with OpenAI's own client, and the errors that its clients act on. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { ContentFilterFinishReasonError, LengthFinishReasonError } from 'openai/error'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore, onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, job } from '../parley.ts'
import { openaiOf } from './official-client.ts'
import { shareStage } from './shared-stage.ts'

const HELLO = { model: 'gpt-5-mini', messages: [{ role: 'user' as const, content: 'Hello' }] }
const CHAT = '/v1/chat/completions'
const TARGETS = { targets: [{ upstream: 'openai', model: 'x' }] }
const SETTINGS = {
  models: { 'org/model': TARGETS, cached: { ...TARGETS, v1_cache: true } },
  cors: { origins: ['https://app.example'] },
}

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
  const enter = shareStage({ settings: SETTINGS })

  test('a completion has every field that the client promises', async () => {
    const { openai } = await enter(() => reply.text('Hi.'))
    const completion: OpenAI.ChatCompletion = await openai.chat.completions.create(HELLO)
    assert.match(completion.id, /^chatcmpl-/)
    assert.equal(completion.object, 'chat.completion')
    assert.equal(completion.model, 'gpt-5-mini')
    assert.deepEqual(completion.choices, [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hi.', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ])
    const { prompt_tokens, completion_tokens, total_tokens } = completion.usage ?? assert.fail('no usage')
    assert.ok(prompt_tokens > 0 && total_tokens === prompt_tokens + completion_tokens)
  })

  test('models are those of the tier, also one whose name has a slash', async () => {
    const { openai, parley } = await enter()
    const free = openaiOf(parley, await parley.key('user_free'))
    const { data: listed } = await free.models.list()
    assert.deepEqual(listed.map(({ id }) => id).sort(), ['gpt-5-mini', 'gpt-auto'])
    assert.equal((await openai.models.retrieve('org/model')).id, 'org/model')
    // Version 4 of the client does not encode the slash.
    assert.equal((await openai.get<{ id: string }>('/models/org/model')).id, 'org/model')
    await assert.rejects(openai.get('/models/org/other'), { status: 404, code: 'model_not_found' })
    await assert.rejects(free.models.retrieve('gpt-5'), OpenAI.NotFoundError)
  })

  test('the name of an unknown model is truncated in the error', async () => {
    const { openai } = await enter()
    const model = 'x'.repeat(9000)
    const isShort = ({ message, code }: InstanceType<typeof OpenAI.APIError>) =>
      code === 'model_not_found' && message.length < 300
    await assert.rejects(openai.get(`/models/${model}`), isShort)
    await assert.rejects(openai.get(`/models/org/${model}`), isShort)
    await assert.rejects(openai.chat.completions.create({ ...HELLO, model }), isShort)
  })

  test('the response cache is used only if the model or a header asks for it', async () => {
    const { openai, parley, key, models } = await enter()
    const twice = async (model: string, headers = {}) => {
      const before = models.completions().length
      for (let ask = 0; ask < 2; ask++) await openai.chat.completions.create({ ...HELLO, model }, { headers })
      return models.completions().length - before
    }
    assert.equal(await twice('gpt-5-mini'), 2)
    assert.equal(await twice('gpt-5-mini', { 'x-parley-cache': 'true' }), 1)
    assert.equal(await twice('cached'), 1)
    const native = job({ messages: HELLO.messages, model: 'gpt-5' })
    await twice('gpt-5')
    assert.equal((await parley.post('/api/v1/messages', native, key)).headers.get('x-cache'), null)
  })

  test('large bodies are read by a thread, with the same results and errors', async () => {
    const { openai, models } = await enter(() => reply.json({ a: 1 }))
    const messages = Array.from({ length: 3000 }, (_, at) => ({ role: 'user' as const, content: `"${at}"` }))
    const format = zodResponseFormat(z.object({ a: z.number() }), 'a')
    const body = { model: 'gpt-5-mini', messages, response_format: format, max_completion_tokens: 9 }
    assert.ok(JSON.stringify(body).length > 100_000)
    const { choices } = await openai.chat.completions.parse(body)
    assert.deepEqual(choices[0]?.message.parsed, { a: 1 })
    assert.equal(models.requests[0]?.body.messages.at(-1)?.content, '"2999"')
    assert.equal(models.requests[0]?.body.max_tokens, 9)
    const wrong = [...messages, { role: 'tool' as const, content: 'x', tool_call_id: '1' }]
    const refused = openai.chat.completions.create({ ...body, messages: wrong })
    assert.equal((await thrown(refused, OpenAI.BadRequestError)).param, 'messages[3000].tool_call_id')
    const same = { headers: { 'idempotency-key': 'large' } }
    const first = await openai.chat.completions.create(body, same)
    assert.equal((await openai.chat.completions.create(body, same)).id, first.id)
    await assert.rejects(openai.chat.completions.create({ ...body, seed: 1 }, same), OpenAI.ConflictError)
  })

  test('keys and admin tokens are never confused', async () => {
    const { parley, key } = await enter()
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

  test('failed jobs are not retried by the client', async () => {
    const { openai, models } = await enter(() => reply.status(400))
    const error = await thrown(openai.chat.completions.create(HELLO), OpenAI.InternalServerError)
    assert.deepEqual([error.status, error.code], [502, 'model_error'])
    assert.equal(models.completions().length, 1)
  })

  test('an unknown model is a 404, one that the tier may not use a 403', async () => {
    const { parley } = await enter()
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

  test('an Idempotency-Key with another body is a conflict that is not retried', async () => {
    const { openai } = await enter()
    const options = { headers: { 'idempotency-key': 'one' } }
    const first = await openai.chat.completions.create(HELLO, options)
    assert.equal((await openai.chat.completions.create(HELLO, options)).id, first.id)
    const other = openai.chat.completions.create({ ...HELLO, temperature: 0 }, options)
    assert.equal((await thrown(other, OpenAI.ConflictError)).headers?.get('x-should-retry'), 'false')
  })
})

// What the client sends and reads does not depend on the store.
onAnyStore(() => {
  const enter = shareStage({ settings: SETTINGS })

  test('every reasoning effort and verbosity that the client knows is sent to the model', async () => {
    const { openai, models } = await enter()
    // This does not compile if a new version of the client knows another effort.
    const known: Readonly<Record<NonNullable<OpenAI.ReasoningEffort>, true>> = {
      none: true,
      minimal: true,
      low: true,
      medium: true,
      high: true,
      xhigh: true,
      max: true,
    }
    const efforts = Object.keys(known) as OpenAI.ReasoningEffort[]
    for (const reasoning_effort of efforts)
      await openai.chat.completions.create({ ...HELLO, reasoning_effort })
    type Verbosity = NonNullable<OpenAI.ChatCompletionCreateParams['verbosity']>
    const sent: Readonly<Record<Verbosity, string | undefined>> = {
      low: 'low',
      // Some model servers would reject this default, so it is not sent.
      medium: undefined,
      high: 'high',
    }
    for (const verbosity of Object.keys(sent) as Verbosity[])
      await openai.chat.completions.create({ ...HELLO, verbosity })
    assert.deepEqual(
      models.completions().map(({ body }) => [body.reasoning_effort, body.verbosity]),
      [...efforts.map((effort) => [effort, undefined]), ...Object.values(sent).map((it) => [undefined, it])],
    )
  })

  test('parse() returns the object that a Zod schema describes', async () => {
    const { openai } = await enter(() => reply.json({ name: 'Ada', born: 1815 }))
    const person = z.object({ name: z.string(), born: z.number() })
    const format = zodResponseFormat(person, 'person')
    const { choices } = await openai.chat.completions.parse({ ...HELLO, response_format: format })
    assert.deepEqual(choices[0]?.message.parsed, { name: 'Ada', born: 1815 })
  })

  test('a schema next to json_object is sent and checked, as other servers read it', async () => {
    const { openai, models } = await enter(() => reply.json({ name: 'Ada' }))
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
    const response_format = { type: 'json_object' as const, schema }
    const { choices } = await openai.chat.completions.create({ ...HELLO, response_format })
    assert.equal(choices[0]?.message.content, '{"name":"Ada"}')
    assert.deepEqual(models.completions()[0]?.body.response_format, {
      type: 'json_schema',
      json_schema: { name: 'answer', schema, strict: false },
    })
  })

  test('json_object asks the server for an object, and accepts no other JSON', async () => {
    const { openai, models } = await enter(({ body }) =>
      reply.text(body.messages.length > 2 ? '{"list":[1]}' : '[1]'),
    )
    const { choices } = await openai.chat.completions.create({
      ...HELLO,
      response_format: { type: 'json_object' },
    })
    assert.equal(choices[0]?.message.content, '{"list":[1]}')
    const sent = models.completions().map(({ body }) => body.response_format)
    assert.deepEqual(sent, [{ type: 'json_object' }, { type: 'json_object' }])
  })

  test('a header lists what is not checked of a schema, in both routes', async () => {
    const { openai } = await enter(() => reply.json({}))
    const format = { type: 'json_schema' as const, name: 'a', schema: { type: 'object', 'x-order': 1 } }
    const response_format = { type: 'json_schema' as const, json_schema: format }
    const body = { model: 'gpt-5-mini', input: 'Hello', text: { format } }
    const answers = [
      openai.chat.completions.create({ ...HELLO, response_format }),
      openai.responses.create(body),
      openai.responses.create({ ...body, background: true }),
    ]
    for (const answer of answers) {
      assert.equal((await answer.asResponse()).headers.get('x-parley-ignored'), '/x-order')
    }
  })

  test('an answer that reached its length is delivered as far as it goes, also JSON and an empty one', async () => {
    const { openai, models } = await enter()
    const asked = async (format: 'text' | 'json_object', content: string | null) => {
      models.script = () => reply.truncated(content)
      const body = { ...HELLO, max_completion_tokens: 5, response_format: { type: format } }
      const { choices } = await openai.chat.completions.create(body)
      assert.equal(choices[0]?.finish_reason, 'length')
      return choices[0]?.message.content
    }
    assert.equal(await asked('text', 'Once upon'), 'Once upon')
    assert.equal(await asked('json_object', '{"a": [1, 2'), '{"a": [1, 2')
    assert.equal(await asked('text', ''), '')
    // vLLM sends null if the limit was reached during reasoning.
    assert.equal(await asked('text', null), '')
    assert.equal(models.requests[0]?.body.max_tokens, 5)
    const format = zodResponseFormat(z.object({ a: z.number() }), 'a')
    models.script = () => reply.truncated('{"a": ')
    const parsed = openai.chat.completions.parse({ ...HELLO, response_format: format })
    await assert.rejects(parsed, LengthFinishReasonError)
  })

  test('a refusal of the model is an answer, not an error', async () => {
    const { openai, models } = await enter(() => reply.contentFilter())
    const { choices } = await openai.chat.completions.create(HELLO)
    assert.equal(choices[0]?.finish_reason, 'content_filter')
    const format = zodResponseFormat(z.object({ a: z.number() }), 'a')
    const parsed = openai.chat.completions.parse({ ...HELLO, response_format: format })
    await assert.rejects(parsed, ContentFilterFinishReasonError)
    assert.equal(models.completions().length, 2)
  })

  test('a field that is wrong or not supported is named in param', async () => {
    const { openai, models } = await enter()
    const named = (role: string, name?: string) => ({ role, content: 'x', ...(name && { name }) })
    const schema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 7 } } }
    const wrong: [string, Record<string, unknown>][] = [
      ['stream', { stream: true }],
      ['tools', { tools: [{ type: 'function', function: { name: 'f' } }] }],
      // Some clients send fields that belong to a stream or to tools before `stream` or `tools`. The error must still name the
      // cause.
      ['stream', { top_k: 3, stream_options: { include_usage: true }, stream: true }],
      ['tools', { tool_choice: 'required', tools: [{ type: 'function', function: { name: 'f' } }] }],
      ['n', { n: 2 }],
      ['logprobs', { logprobs: true }],
      ['top_k', { top_k: 3 }],
      ['temperature', { temperature: 3 }],
      ['max_completion_tokens', { max_completion_tokens: 0 }],
      ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }],
      ['messages[2].name', { messages: [named('system', 'a'), named('user', 'b'), named('user')] }],
      ['messages[0].role', { messages: [{ role: 'tool', content: 'x' }] }],
      ['messages', { messages: [{ role: 'system', content: 'x' }] }],
      ['response_format.type', { response_format: { type: 'grammar' } }],
      ['response_format.json_schema.schema.type', { response_format: schema }],
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

  test('requests without a route and broken ones get the shape of OpenAI', async () => {
    const { parley, key } = await enter()
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
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

  test('pages of allowed origins may send what the client sends, and read when to retry', async () => {
    const { parley } = await enter()
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
