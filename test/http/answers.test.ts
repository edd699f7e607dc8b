/**
 * Tests how a conversation becomes `response_content`, why jobs fail (SPEC §2.2, §2.3, §3 and §7), and what callers and
 * operators read of a model server's errors, in each shape that model servers send.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Reply, reply, type Script } from '../model-server.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN } from '../parley.ts'
import { idOf, shareStage, startScene } from './caller.ts'
import { openDatabase } from './database.ts'
import { completed, failed } from './expect.ts'

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'The name.' },
    age: { type: 'integer', description: 'In years.' },
  },
  required: ['name', 'age'],
  additionalProperties: false,
}
const ANN = { name: 'Ann', age: 40 }
const withSchema = (schema: object) => ({ response_format: { format: 'json', schema } })
const asPerson = withSchema(PERSON)
const asJson = { response_format: { format: 'json' } }
const sentSchema = (schema: object, strict: boolean) => ({
  type: 'json_schema',
  json_schema: { name: 'answer', schema, strict },
})

const WRAPPED: readonly [name: string, over: object, value: unknown, texts: readonly string[]][] = [
  [
    'a code fence around the answer is taken off',
    asJson,
    { a: 1 },
    ['```json\n{"a": 1}\n```', '```\n{"a": 1}\n```', ' \n```JSON\n{"a": 1}```\n'],
  ],
  [
    'thoughts before the answer, and prose around its only block, are removed',
    asPerson,
    ANN,
    [
      `<think>\nWho is it? {"name":\n</think>\n\n${JSON.stringify(ANN)}`,
      `Here is the JSON:\n\n\`\`\`json\n${JSON.stringify(ANN)}\n\`\`\`\n\nAnything else?`,
    ],
  ],
]

const coded = (code: string) =>
  reply.status(400, { body: { error: { message: 'It breaks the policy.', type: 'invalid_request', code } } })

const POLICY = 'content_policy_violation'
const FAILURES: readonly (readonly [
  name: string,
  answer: Reply,
  code: string,
  status: number,
  message: string,
])[] = [
  [
    `${POLICY}: the model refuses`,
    reply.refusal('I cannot help with that.'),
    POLICY,
    200,
    'I cannot help with that.',
  ],
  [
    `${POLICY}: an upstream error coded as a content filter`,
    coded('content_filter'),
    POLICY,
    400,
    'It breaks the policy.',
  ],
  [`${POLICY}: an upstream error coded as one`, coded(POLICY), POLICY, 400, 'It breaks the policy.'],
  [
    'model_error: with the upstream’s own status and message, and no retry of a plain 4xx',
    reply.status(400),
    'model_error',
    400,
    'It answers 400.',
  ],
]

const OPENROUTER = {
  code: 422,
  message: 'Provider returned error',
  metadata: { provider_name: 'Moonshot', raw: '{"error":{"message":"Invalid penalty."}}' },
}
const vllm = (field: string, msg: string) => ({ detail: [{ loc: ['body', field], msg }] })

const SHAPES: readonly (readonly [server: string, body: unknown, words: string])[] = [
  ['OpenAI', { error: { message: 'Model not loaded.', code: 'no_model' } }, 'Model not loaded.'],
  ['FastAPI', { detail: 'Not a model.' }, 'Not a model.'],
  ['vLLM', vllm('max_tokens', 'Input should be > 0'), 'body.max_tokens: Input should be > 0'],
  ['Ollama', { error: 'model "x" not found' }, 'model "x" not found'],
  ['Mistral', { object: 'error', message: vllm('stop', 'Field required') }, 'body.stop: Field required'],
  ['Google', [{ error: { code: 400, message: 'Bad model.' } }], 'Bad model.'],
  ['OpenRouter', { error: OPENROUTER }, 'Invalid penalty.'],
  ['plain text', 'unknown route', 'unknown route'],
]

onEachStore(() => {
  const begin = shareStage()

  test('2.3 all four roles, in any order and number, arrive at the model as they were sent', async (t) => {
    const { caller, models } = await startScene(t, {
      settings: { upstreams: { openai: { roles: 'native', api_key_env: null } } },
    })
    const roles = 'user assistant assistant system developer user user developer system assistant'.split(' ')
    const messages = roles.map((role, index) => ({ role, content: `${index}: "${role}" \n 👋 \u0000` }))
    completed(await caller.create({ messages }))
    assert.deepEqual(models.requests[0]?.body, { model: 'gpt-5-mini', messages })
  })

  test('2.3 a conversation of a thousand messages arrives whole', async (t) => {
    const { caller, models } = await begin(t)
    const messages = Array.from({ length: 1000 }, (_, index) => ({ role: 'user', content: `${index}` }))
    assert.equal(completed(await caller.create({ messages })), 'echo: 999')
    assert.deepEqual(models.requests[0]?.body.messages, messages)
  })

  test('2.2 text: the answer is a string, whatever it looks like', async (t) => {
    const { caller, models } = await begin(t)
    for (const text of ['{"a": 1}', '```json\n{}\n```', '', ' padded ', 'NUL \u0000, é, 👋']) {
      models.script = () => reply.text(text)
      assert.equal(completed(await caller.ask(text)), text)
    }
  })

  test('2.2 json with a schema: the model is held to it, and the answer is its value', async (t) => {
    const { caller, models } = await begin(t, () => reply.json(ANN))
    assert.deepEqual(completed(await caller.create(asPerson)), ANN)
    assert.deepEqual(models.requests[0]?.body, {
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: 'Hello' }],
      response_format: sentSchema(PERSON, true),
    })
  })

  test('2.2 json with a schema beyond the strict rules is sent with strict off', async (t) => {
    const { caller, models } = await begin(t, () => reply.json({ a: 1, b: 2 }))
    const schema = { type: 'object', properties: { a: { type: 'number' } } }
    completed(await caller.create(withSchema(schema)))
    assert.deepEqual(models.requests[0]?.body.response_format, sentSchema(schema, false))
  })

  test('2.2 json without a schema: any JSON value, asked for by an instruction', async (t) => {
    const { caller, models } = await begin(t)
    for (const value of [{ a: [1] }, [], 'text', 7, true, null]) {
      models.script = () => reply.json(value)
      assert.deepEqual(completed(await caller.ask(JSON.stringify(value), asJson)), value)
    }
    const body = models.requests[0]?.body
    assert.equal(body?.response_format, undefined)
    assert.equal(body?.messages.length, 2)
    assert.match(String(body?.messages[0]?.content), /JSON/)
    assert.deepEqual(body?.messages[1], { role: 'user', content: '{"a":[1]}' })
  })

  for (const [name, over, value, texts] of WRAPPED) {
    test(`2.2 json: ${name}`, async (t) => {
      const { caller, models } = await begin(t)
      for (const text of texts) {
        models.script = () => reply.text(text)
        assert.deepEqual(completed(await caller.ask(text, { ...over })), value)
      }
      assert.equal(models.requests.length, texts.length)
    })
  }

  test('2.2 json: large integers and long fractions come back digit by digit', async (t) => {
    const text = '{"id":12345678901234567890,"rate":0.1000000000000000000001,"huge":1.0e308}'
    const { caller } = await begin(t, () => reply.text(text))
    const answer = await caller.create(asJson)
    assert.ok(answer.text.includes(`"response_content":${text}`), answer.text)
    assert.equal((await caller.read(idOf(answer))).text, answer.text)
  })

  test('2.2 json: a number that no double holds is repaired, and not handed on', async (t) => {
    const script: Script = (_request, index) => reply.text(index === 0 ? '[1,1e400]' : '[1,1e300]')
    const { caller, models } = await begin(t, script)
    assert.deepEqual(completed(await caller.create(asJson)), [1, 1e300])
    assert.match(String(models.requests[1]?.body.messages.at(-1)?.content), /\[1\]: must be a number/)
  })

  test('2.2 json: a schema that the server rejects is sent as an instruction, without using up a try', async (t) => {
    const llama = new LlamaCpp({ template: 'qwen-2.5', answer: () => '{"code":"x1"}' })
    const { caller, models } = await startScene(t, { script: llama.script })
    const code = { type: 'string', pattern: '[a-z][0-9]' }
    const schema = { type: 'object', properties: { code }, required: ['code'], additionalProperties: false }
    assert.deepEqual(completed(await caller.create(withSchema(schema))), { code: 'x1' })
    const sent = models.requests.map(({ body }) => body.response_format?.type)
    assert.deepEqual(sent, ['json_schema', 'json_object'])
    assert.ok(llama.prompts[0]?.includes(JSON.stringify(schema)))
  })

  test('2.2 json: a wrong answer is repaired once, with its errors shown to the model', async (t) => {
    const wrong = '{"name":"Ann","age":"forty"}'
    const { caller, models } = await begin(t, (_request, index) =>
      index === 0 ? reply.text(wrong) : reply.json(ANN),
    )
    assert.deepEqual(completed(await caller.create(asPerson)), ANN)
    assert.equal(models.requests.length, 2)
    const second = models.requests[1]?.body
    const [asked, answered, repair, ...others] = second?.messages ?? []
    assert.deepEqual(
      [asked, answered, repair?.role, others],
      [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: wrong }, 'user', []],
    )
    const request = String(repair?.content)
    assert.match(request, /age.*integer/)
    assert.ok(request.includes(JSON.stringify(PERSON)), request)
    assert.equal(second?.response_format?.type, 'json_schema')
  })

  test('3 failed, validation_error: one repair did not help; the errors and the raw text are there', async (t) => {
    const { caller, models } = await begin(t, (_request, index) =>
      reply.text(index === 0 ? 'Ann is 40.' : '{"name":"Ann"}'),
    )
    const { message, errors, ...error } = failed(await caller.create(asPerson))
    assert.deepEqual(error, { code: 'validation_error', raw_text: '{"name":"Ann"}' })
    assert.equal(typeof message, 'string')
    assert.equal(errors.length, 1)
    assert.match(errors[0], /age/)
    assert.equal(models.requests.length, 2)
  })

  test('3 failed, validation_error: no JSON where JSON was asked for', async (t) => {
    const { caller } = await begin(t, () => reply.text('I would rather talk.'))
    const { code, raw_text, errors } = failed(await caller.create(asJson))
    assert.deepEqual([code, raw_text], ['validation_error', 'I would rather talk.'])
    assert.match(errors[0], /not JSON/)
  })

  for (const [name, answer, code, status, words] of FAILURES) {
    test(`3 failed, ${name}`, async (t) => {
      const { caller, models } = await begin(t, () => answer)
      const { message, ...error } = failed(await caller.create())
      assert.equal(typeof message, 'string')
      assert.deepEqual(error, { code, upstream_status: status, upstream_message: words })
      assert.equal(models.requests.length, 1)
    })
  }

  test('3 failed, content_policy_violation: the content filter stops the answer', async (t) => {
    const { caller } = await begin(t, () => reply.contentFilter('The recipe is'))
    assert.equal(failed(await caller.create()).code, 'content_policy_violation')
  })

  test('3 failed, model_error: a 200 that is not a chat completion', async (t) => {
    for (const wrong of [reply.garbage(), reply.notACompletion()]) {
      const { caller } = await startScene(t, { script: () => wrong })
      const { code, upstream_status } = failed(await caller.create())
      assert.deepEqual([code, upstream_status], ['model_error', 200])
    }
  })

  test('3 failed, model_error: three rounds of 5xx, with pauses', async (t) => {
    const { caller, models, clock } = await startScene(t, {
      settings: { jobs: { patience_seconds: 0 } },
      script: () => reply.status(503),
    })
    const answer = caller.create()
    for (const [least, most] of [
      [375, 625],
      [1500, 2500],
    ] as const) {
      // The pause is random and therefore usually not a whole number of milliseconds. All other timers are whole.
      const ms = await clock.timerSet((pause) => pause >= least && pause <= most && !Number.isInteger(pause))
      clock.advance(Math.ceil(ms))
    }
    const { message, ...error } = failed(await answer)
    assert.equal(typeof message, 'string')
    const words = 'It answers 503.'
    assert.deepEqual(error, { code: 'model_error', upstream_status: 503, upstream_message: words })
    assert.equal(models.requests.length, 3)
  })

  test('3 failed, timeout: the run does not end within run_timeout_seconds, also for a waiting single create', async (t) => {
    const { caller, models, clock } = await startScene(t, {
      settings: { jobs: { run_timeout_seconds: 60 } },
      script: () => reply.stall(),
    })
    const id = await caller.enqueueOne()
    const waiting = caller.create({ model: 'gpt-5' })
    await models.received(2)
    clock.advance(59_999)
    assert.equal((await caller.read(id)).body.data.status, 'assigned')
    clock.advance(1)
    for (const answer of [await caller.ended(id), await waiting]) {
      assert.deepEqual(failed(answer), {
        code: 'timeout',
        message: 'The job did not finish within its run timeout.',
      })
    }
    assert.equal(await models.requests[0]?.ended, 'cut')
  })

  test('what was really sent is recorded with the job: calls, instruction, repair', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      script: (_request, index) => (index === 0 ? reply.text('no JSON') : reply.json([1])),
    })
    assert.deepEqual(completed(await caller.create(asJson)), [1])
    const [stored] = await (await openDatabase(t, parley)).outcomes()
    const usage = JSON.parse(String(stored?.usage))
    const receipt = JSON.parse(String(stored?.receipt))
    assert.deepEqual(
      [usage.target, usage.calls, usage.repaired, usage.cache_hit],
      ['openai/gpt-5-mini', 2, true, false],
    )
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0)
    assert.deepEqual([receipt.form, receipt.repair.raw_text], ['json', 'no JSON'])
    const calls = receipt.calls.map(({ instruction, roles, json_mode }: Record<string, string>) => [
      instruction,
      roles,
      json_mode,
    ])
    const sent = models.requests.map(({ body }) => body.messages[0]?.content)
    assert.deepEqual(
      calls,
      sent.map((instruction) => [instruction, 'merged_system', 'instruction']),
    )
  })

  test('7 the words of a model server reach the caller, whatever shape they come in', async (t) => {
    const { caller, models } = await begin(t)
    for (const [server, body, words] of SHAPES) {
      models.script = () => reply.status(422, { body })
      const { code, upstream_status, upstream_message } = failed(await caller.ask(server))
      assert.deepEqual([code, upstream_status, upstream_message], ['model_error', 422, words])
    }
  })

  test('a failed call is logged with its job and its code, and without the words, which may quote the conversation', async (t) => {
    const error = { message: 'CANARY', code: 'context_length_exceeded' }
    const { parley, caller } = await startScene(t, {
      script: () => reply.status(400, { body: { error } }),
    })
    const answer = await caller.ask('a')
    failed(answer)
    const [line, ...others] = parley.log.filter(({ message }) => message === 'call failed')
    assert.deepEqual(others, [])
    const expected = {
      level: 'warn',
      job_id: idOf(answer),
      upstream: 'openai',
      upstream_model: 'gpt-5-mini',
      upstream_status: 400,
      code: 'context_length_exceeded',
      connection: null,
    }
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, line?.[name]])), expected)
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
  })

  test('7 strings of upstreams.NAME.body are masked in what a model server echoes, but not in answers', async (t) => {
    const [plain, odd, listed] = ['tenant-CANARY1', 'q"uo\\te/ä CANARY2 \u{1F600}', 'listed-CANARY3']
    const body = { user: plain, extra: { config: odd, all: [listed, `${listed}-longer`] }, seed: 7 }
    const { parley, caller, models } = await startScene(t, { settings: { upstreams: { openai: { body } } } })
    const ascii = (text: string) =>
      text.replace(/[^\0-\x7f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    const ways: readonly ((sent: string) => unknown)[] = [
      (sent) => ({ error: { message: `Invalid request: ${sent}`, code: plain } }),
      (sent) => sent.replace('{', 'Invalid request: {'),
      (sent) => `Invalid request: ${ascii(JSON.stringify(sent))}`,
      (sent) => ({ detail: [{ loc: ['body'], msg: ascii(JSON.stringify(ascii(sent))) }] }),
      (sent) => `Invalid request: ${sent.replaceAll('/', '\\/')}`,
      (sent) => ({ error: `Invalid request: ${encodeURIComponent(sent)}` }),
      (sent) => ({ error: `Invalid request: ${sent.slice(0, sent.indexOf('CANARY1') + 3)}` }),
    ]
    const asAdmin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    for (const way of ways) {
      const said: string[] = []
      models.script = (request) => {
        const echo = way(request.text)
        said.push(JSON.stringify(echo))
        return reply.status(400, { body: echo })
      }
      const created = await caller.ask('a')
      const { upstream_status, upstream_message } = failed(created)
      assert.equal(upstream_status, 400)
      assert.match(String(upstream_message), /\*\*\*/)
      assert.match(String(said), /CAN/)
      const id = idOf(created)
      const places = [
        created,
        await caller.read(id),
        await parley.get(`/admin/api/jobs/${id}`, undefined, asAdmin),
        await parley.get(`/admin/api/jobs/${id}/content`, undefined, asAdmin),
        { text: JSON.stringify(parley.log) },
      ]
      for (const { text } of places) assert.doesNotMatch(text, /CAN|tenant|listed|q.{1,12}uo/)
    }
    models.script = (request) => reply.text(`You sent ${request.text}`)
    const answer = completed(await caller.ask('b'))
    assert.equal(answer, `You sent ${models.completions().at(-1)?.text}`)
    for (const secret of [plain, listed]) assert.ok(answer.includes(secret))
  })

  test('2.2 content in parts is read, without what the model thought', async (t) => {
    const content = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
      { type: 'text', text: 'The ' },
      { type: 'text', text: 'answer.' },
    ]
    const choices = [{ message: { role: 'assistant', content }, finish_reason: 'stop' }]
    const { caller } = await begin(t, () => reply.notACompletion({ choices }))
    assert.equal(completed(await caller.create()), 'The answer.')
  })
})
