/** POST /v1/chat/completions and GET /v1/models, through OpenAI's own client. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { ContentFilterFinishReasonError, LengthFinishReasonError } from 'openai/error'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { openaiOf } from './official-client.ts'

const HELLO = { model: 'gpt-5-mini', messages: [{ role: 'user' as const, content: 'Hello' }] }

onEachStore(() => {
  test('a completion has every field that the client promises', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.text('Hi.') })
    const openai = openaiOf(parley, await parley.key())
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

  test('every reasoning effort and verbosity that the client knows is sent to the model', async (t) => {
    const { parley, models } = await startStage(t)
    const openai = openaiOf(parley, await parley.key())
    // This does not compile if a new version of the client knows another one.
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
    assert.deepEqual(
      models.completions().map(({ body }) => body.reasoning_effort),
      efforts,
    )
    type Verbosity = NonNullable<OpenAI.ChatCompletionCreateParams['verbosity']>
    const sent: Readonly<Record<Verbosity, string | undefined>> = {
      low: 'low',
      // The default, which some model servers would reject.
      medium: undefined,
      high: 'high',
    }
    for (const verbosity of Object.keys(sent) as Verbosity[])
      await openai.chat.completions.create({ ...HELLO, verbosity })
    assert.deepEqual(
      models
        .completions()
        .slice(efforts.length)
        .map(({ body }) => body.verbosity),
      Object.values(sent),
    )
  })

  test('parse() returns the object that a Zod schema describes', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.json({ name: 'Ada', born: 1815 }) })
    const openai = openaiOf(parley, await parley.key())
    const person = z.object({ name: z.string(), born: z.number() })
    const format = zodResponseFormat(person, 'person')
    const { choices } = await openai.chat.completions.parse({ ...HELLO, response_format: format })
    assert.deepEqual(choices[0]?.message.parsed, { name: 'Ada', born: 1815 })
  })

  test('a schema next to json_object is sent and checked, as other servers read it', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.json({ name: 'Ada' }) })
    const openai = openaiOf(parley, await parley.key())
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
    const response_format = { type: 'json_object' as const, schema }
    const { choices } = await openai.chat.completions.create({ ...HELLO, response_format })
    assert.equal(choices[0]?.message.content, '{"name":"Ada"}')
    assert.deepEqual(models.completions()[0]?.body.response_format, {
      type: 'json_schema',
      json_schema: { name: 'answer', schema, strict: false },
    })
  })

  test('json_object asks the server for an object, and accepts no other JSON', async (t) => {
    const { parley, models } = await startStage(t)
    const openai = openaiOf(parley, await parley.key())
    models.script = ({ body }) => reply.text(body.messages.length > 2 ? '{"list":[1]}' : '[1]')
    const { choices } = await openai.chat.completions.create({
      ...HELLO,
      response_format: { type: 'json_object' },
    })
    assert.equal(choices[0]?.message.content, '{"list":[1]}')
    const sent = models.completions().map(({ body }) => body.response_format)
    assert.deepEqual(sent, [{ type: 'json_object' }, { type: 'json_object' }])
  })

  test('a header lists what is not checked of a schema, in both routes', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.json({}) })
    const openai = openaiOf(parley, await parley.key())
    const format = { type: 'json_schema' as const, name: 'a', schema: { type: 'object', 'x-order': 1 } }
    const answers = [
      openai.chat.completions.create({
        ...HELLO,
        response_format: { type: 'json_schema', json_schema: format },
      }),
      openai.responses.create({ model: 'gpt-5-mini', input: 'Hello', text: { format } }),
      openai.responses.create({ model: 'gpt-5-mini', input: 'Hello', text: { format }, background: true }),
    ]
    for (const answer of answers) {
      assert.equal((await answer.asResponse()).headers.get('x-parley-ignored'), '/x-order')
    }
  })

  test('models are those of the tier, also one whose name has a slash', async (t) => {
    const settings = { models: { 'org/model': { targets: [{ upstream: 'openai', model: 'x' }] } } }
    const { parley } = await startStage(t, { settings })
    const openai = openaiOf(parley, await parley.key('user_free'))
    const { data: listed } = await openai.models.list()
    assert.deepEqual(listed.map(({ id }) => id).sort(), ['gpt-5-mini', 'gpt-auto'])
    const max = openaiOf(parley, await parley.key('user_max'))
    assert.equal((await max.models.retrieve('org/model')).id, 'org/model')
    // Version 4 of the client does not encode the slash.
    assert.equal((await max.get<{ id: string }>('/models/org/model')).id, 'org/model')
    await assert.rejects(max.get('/models/org/other'), { status: 404, code: 'model_not_found' })
    await assert.rejects(openai.models.retrieve('gpt-5'), OpenAI.NotFoundError)
  })

  test('an answer that reached its length is delivered as far as it goes, also JSON and an empty one', async (t) => {
    const { parley, models } = await startStage(t)
    const openai = openaiOf(parley, await parley.key())
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

  test('a refusal of the model is an answer, not an error', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.contentFilter() })
    const openai = openaiOf(parley, await parley.key())
    const { choices } = await openai.chat.completions.create(HELLO)
    assert.equal(choices[0]?.finish_reason, 'content_filter')
    const format = zodResponseFormat(z.object({ a: z.number() }), 'a')
    const parsed = openai.chat.completions.parse({ ...HELLO, response_format: format })
    await assert.rejects(parsed, ContentFilterFinishReasonError)
    assert.equal(models.completions().length, 2)
  })

  test('the response cache is used only if the model or a header asks for it', async (t) => {
    const settings = {
      models: { cached: { targets: [{ upstream: 'openai', model: 'x' }], v1_cache: true } },
    }
    const { parley, models } = await startStage(t, { settings })
    const key = await parley.key()
    const openai = openaiOf(parley, key)
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

  test('large bodies are read by a thread, with the same results and errors', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.json({ a: 1 }) })
    const openai = openaiOf(parley, await parley.key())
    const messages = Array.from({ length: 3000 }, (_, at) => ({ role: 'user' as const, content: `"${at}"` }))
    const format = zodResponseFormat(z.object({ a: z.number() }), 'a')
    const body = { model: 'gpt-5-mini', messages, response_format: format, max_completion_tokens: 9 }
    assert.ok(JSON.stringify(body).length > 100_000)
    const { choices } = await openai.chat.completions.parse(body)
    assert.deepEqual(choices[0]?.message.parsed, { a: 1 })
    assert.equal(models.requests[0]?.body.messages.at(-1)?.content, '"2999"')
    assert.equal(models.requests[0]?.body.max_tokens, 9)
    const wrong = [...messages, { role: 'tool' as const, content: 'x', tool_call_id: '1' }]
    const error = await openai.chat.completions.create({ ...body, messages: wrong }).catch((error) => error)
    assert.ok(error instanceof OpenAI.BadRequestError)
    assert.equal(error.param, 'messages[3000].tool_call_id')
    const same = { headers: { 'idempotency-key': 'large' } }
    const first = await openai.chat.completions.create(body, same)
    assert.equal((await openai.chat.completions.create(body, same)).id, first.id)
    await assert.rejects(openai.chat.completions.create({ ...body, seed: 1 }, same), OpenAI.ConflictError)
  })
})
