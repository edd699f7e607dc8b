/** Tests how a conversation becomes `response_content`, and why jobs fail (SPEC §2.2, §2.3, §3 and §7). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply, type Script } from '../model-server.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, failed } from './expect.ts'
import { type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'The name.' },
    age: { type: 'integer', description: 'In years.' },
  },
  required: ['name', 'age'],
  additionalProperties: false,
}
const asPerson = { response_format: { format: 'json', schema: PERSON } }
const asJson = { response_format: { format: 'json' } }

async function create({ parley }: Stage, over: object) {
  return parley.post(MESSAGES, job({ ...over }), await parley.key())
}

onEachStore(() => {
  test('2.3 all four roles, in any order and number, arrive at the model as they were sent', async (t) => {
    const stage = await startStage(t, {
      settings: { upstreams: { openai: { roles: 'native', api_key_env: null } } },
    })
    const roles = 'user assistant assistant system developer user user developer system assistant'.split(' ')
    const messages = roles.map((role, index) => ({ role, content: `${index}: "${role}" \n 👋 \u0000` }))
    completed(await create(stage, { messages }))
    assert.deepEqual(stage.models.requests[0]?.body, { model: 'gpt-5-mini', messages })
  })

  test('2.3 a conversation of a thousand messages arrives whole', async (t) => {
    const stage = await startStage(t)
    const messages = Array.from({ length: 1000 }, (_, index) => ({ role: 'user', content: `${index}` }))
    assert.equal(completed(await create(stage, { messages })), 'echo: 999')
    assert.deepEqual(stage.models.requests[0]?.body.messages, messages)
  })

  test('2.2 text: the answer is a string, whatever it looks like', async (t) => {
    const stage = await startStage(t)
    for (const text of ['{"a": 1}', '```json\n{}\n```', '', ' padded ', 'NUL \u0000, é, 👋']) {
      stage.models.script = () => reply.text(text)
      const messages = [{ role: 'user', content: text }]
      assert.equal(completed(await create(stage, { messages })), text)
    }
  })

  test('2.2 json with a schema: the model is held to it, and the answer is its value', async (t) => {
    const stage = await startStage(t, { script: () => reply.json({ name: 'Ann', age: 40 }) })
    assert.deepEqual(completed(await create(stage, asPerson)), { name: 'Ann', age: 40 })
    assert.deepEqual(stage.models.requests[0]?.body, {
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: 'Hello' }],
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: PERSON, strict: true } },
    })
  })

  test('2.2 json with a schema beyond the strict rules is sent with strict off', async (t) => {
    const stage = await startStage(t, { script: () => reply.json({ a: 1, b: 2 }) })
    const schema = { type: 'object', properties: { a: { type: 'number' } } }
    completed(await create(stage, { response_format: { format: 'json', schema } }))
    const format = stage.models.requests[0]?.body.response_format
    assert.deepEqual(format, { type: 'json_schema', json_schema: { name: 'answer', schema, strict: false } })
  })

  test('2.2 json without a schema: any JSON value, asked for by an instruction', async (t) => {
    const stage = await startStage(t)
    for (const value of [{ a: [1] }, [], 'text', 7, true, null]) {
      stage.models.script = () => reply.json(value)
      const messages = [{ role: 'user', content: JSON.stringify(value) }]
      assert.deepEqual(completed(await create(stage, { ...asJson, messages })), value)
    }
    const body = stage.models.requests[0]?.body
    assert.equal(body?.response_format, undefined)
    assert.equal(body?.messages.length, 2)
    assert.match(String(body?.messages[0]?.content), /JSON/)
    assert.deepEqual(body?.messages[1], { role: 'user', content: '{"a":[1]}' })
  })

  test('2.2 json: a code fence around the answer is taken off', async (t) => {
    const stage = await startStage(t)
    for (const fence of ['```json\n{"a": 1}\n```', '```\n{"a": 1}\n```', ' \n```JSON\n{"a": 1}```\n']) {
      stage.models.script = () => reply.text(fence)
      const messages = [{ role: 'user', content: fence }]
      assert.deepEqual(completed(await create(stage, { ...asJson, messages })), { a: 1 })
    }
  })

  test('2.2 json: large integers and long fractions come back digit by digit', async (t) => {
    const text = '{"id":12345678901234567890,"rate":0.1000000000000000000001,"huge":1.0e308}'
    const stage = await startStage(t, { script: () => reply.text(text) })
    const answer = await create(stage, asJson)
    assert.ok(answer.text.includes(`"response_content":${text}`), answer.text)
    const key = await stage.parley.key()
    assert.equal((await stage.parley.get(`${MESSAGES}/${answer.body.data.job_id}`, key)).text, answer.text)
  })

  test('2.2 json: thoughts before the answer, and prose around its only block, are removed', async (t) => {
    const stage = await startStage(t)
    const answer = '{"name":"Ann","age":40}'
    for (const text of [
      `<think>\nWho is it? {"name":\n</think>\n\n${answer}`,
      `Here is the JSON:\n\n\`\`\`json\n${answer}\n\`\`\`\n\nAnything else?`,
    ]) {
      stage.models.script = () => reply.text(text)
      const messages = [{ role: 'user', content: text }]
      assert.deepEqual(completed(await create(stage, { messages, ...asPerson })), { name: 'Ann', age: 40 })
    }
    assert.equal(stage.models.requests.length, 2)
  })

  test('2.2 json: a number that no double holds is repaired, and not handed on', async (t) => {
    const script: Script = (_request, index) => reply.text(index === 0 ? '[1,1e400]' : '[1,1e300]')
    const stage = await startStage(t, { script })
    assert.deepEqual(completed(await create(stage, asJson)), [1, 1e300])
    assert.match(String(stage.models.requests[1]?.body.messages.at(-1)?.content), /\[1\]: must be a number/)
  })

  test('2.2 json: a schema that the server rejects is sent as an instruction, without using up a try', async (t) => {
    const llama = new LlamaCpp({ template: 'qwen-2.5', answer: () => '{"code":"x1"}' })
    const stage = await startStage(t, { script: llama.script })
    const code = { type: 'string', pattern: '[a-z][0-9]' }
    const schema = { type: 'object', properties: { code }, required: ['code'], additionalProperties: false }
    const format = { response_format: { format: 'json', schema } }
    assert.deepEqual(completed(await create(stage, format)), { code: 'x1' })
    const sent = stage.models.requests.map(({ body }) => body.response_format?.type)
    assert.deepEqual(sent, ['json_schema', 'json_object'])
    assert.ok(llama.prompts[0]?.includes(JSON.stringify(schema)))
  })

  test('2.2 json: a wrong answer is repaired once, with its errors shown to the model', async (t) => {
    const stage = await startStage(t)
    const wrong = '{"name":"Ann","age":"forty"}'
    stage.models.script = (_request, index) =>
      index === 0 ? reply.text(wrong) : reply.json({ name: 'Ann', age: 40 })
    assert.deepEqual(completed(await create(stage, asPerson)), { name: 'Ann', age: 40 })
    assert.equal(stage.models.requests.length, 2)
    const second = stage.models.requests[1]?.body
    assert.deepEqual(second?.messages.slice(0, 2), [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: wrong },
    ])
    assert.equal(second?.messages.length, 3)
    assert.equal(second?.messages[2]?.role, 'user')
    const request = String(second?.messages[2]?.content)
    assert.match(request, /age.*integer/)
    assert.ok(request.includes(JSON.stringify(PERSON)), request)
    assert.equal(second?.response_format?.type, 'json_schema')
  })

  test('3 failed, validation_error: one repair did not help; the errors and the raw text are there', async (t) => {
    const stage = await startStage(t)
    stage.models.script = (_request, index) => reply.text(index === 0 ? 'Ann is 40.' : '{"name":"Ann"}')
    const { message, errors, ...error } = failed(await create(stage, asPerson))
    assert.deepEqual(error, { code: 'validation_error', raw_text: '{"name":"Ann"}' })
    assert.equal(typeof message, 'string')
    assert.equal(errors.length, 1)
    assert.match(errors[0], /age/)
    assert.equal(stage.models.requests.length, 2)
  })

  test('3 failed, validation_error: no JSON where JSON was asked for', async (t) => {
    const stage = await startStage(t, { script: () => reply.text('I would rather talk.') })
    const error = failed(await create(stage, asJson))
    assert.equal(error.code, 'validation_error')
    assert.equal(error.raw_text, 'I would rather talk.')
    assert.match(error.errors[0], /not JSON/)
  })

  test('3 failed, content_policy_violation: the model refuses', async (t) => {
    const stage = await startStage(t, { script: () => reply.refusal('I cannot help with that.') })
    const { message, ...error } = failed(await create(stage, {}))
    assert.equal(typeof message, 'string')
    assert.deepEqual(error, {
      code: 'content_policy_violation',
      upstream_status: 200,
      upstream_message: 'I cannot help with that.',
    })
    assert.equal(stage.models.requests.length, 1)
  })

  test('3 failed, content_policy_violation: the content filter stops the answer', async (t) => {
    const stage = await startStage(t, { script: () => reply.contentFilter('The recipe is') })
    assert.equal(failed(await create(stage, {})).code, 'content_policy_violation')
  })

  test('3 failed, content_policy_violation: an upstream error coded as one', async (t) => {
    const stage = await startStage(t)
    for (const code of ['content_filter', 'content_policy_violation']) {
      const body = { error: { message: 'It breaks the policy.', type: 'invalid_request_error', code } }
      stage.models.script = () => reply.status(400, { body })
      const { message, ...error } = failed(await create(stage, {}))
      assert.equal(typeof message, 'string')
      assert.deepEqual(error, {
        code: 'content_policy_violation',
        upstream_status: 400,
        upstream_message: 'It breaks the policy.',
      })
    }
  })

  test('3 failed, model_error: with the upstream’s own status and message, and no retry of a plain 4xx', async (t) => {
    const stage = await startStage(t, { script: () => reply.status(400) })
    const { message, ...error } = failed(await create(stage, {}))
    assert.equal(typeof message, 'string')
    assert.deepEqual(error, {
      code: 'model_error',
      upstream_status: 400,
      upstream_message: 'It answers 400.',
    })
    assert.equal(stage.models.requests.length, 1)
  })

  test('3 failed, model_error: a 200 that is not a chat completion', async (t) => {
    const stage = await startStage(t)
    for (const wrong of [reply.garbage(), reply.notACompletion()]) {
      stage.models.script = () => wrong
      const error = failed(await create(stage, {}))
      assert.equal(error.code, 'model_error')
      assert.equal(error.upstream_status, 200)
    }
  })

  test('3 failed, model_error: three rounds of 5xx, with pauses', async (t) => {
    const stage = await startStage(t, {
      settings: { jobs: { patience_seconds: 0 } },
      script: () => reply.status(503),
    })
    const { models, clock } = stage
    const answer = create(stage, {})
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
    assert.deepEqual(error, {
      code: 'model_error',
      upstream_status: 503,
      upstream_message: 'It answers 503.',
    })
    assert.equal(models.requests.length, 3)
  })

  test('3 failed, timeout: the run does not end within run_timeout_seconds', async (t) => {
    const { parley, models, clock } = await startStage(t, {
      settings: { jobs: { run_timeout_seconds: 60 } },
      script: () => reply.stall(),
    })
    const key = await parley.key()
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    clock.advance(59_999)
    assert.equal((await parley.get(`${MESSAGES}/${id}`, key)).body.data.status, 'assigned')
    clock.advance(1)
    assert.deepEqual(failed(await parley.ended(id, key)), {
      code: 'timeout',
      message: 'The job did not finish within its run timeout.',
    })
    assert.equal(await models.requests[0]?.ended, 'cut')
  })

  test('3 failed: a waiting single create gets the timeout', async (t) => {
    const stage = await startStage(t, {
      settings: { jobs: { run_timeout_seconds: 60 } },
      script: () => reply.stall(),
    })
    const answer = create(stage, {})
    await stage.models.received(1)
    stage.clock.advance(60_000)
    assert.equal(failed(await answer).code, 'timeout')
  })

  test('what was really sent is recorded with the job: calls, instruction, repair', async (t) => {
    const script: Script = (_request, index) => (index === 0 ? reply.text('no JSON') : reply.json([1]))
    const stage = await startStage(t, { script })
    assert.deepEqual(completed(await create(stage, asJson)), [1])
    const [stored] = await (await openDatabase(t, stage.parley)).outcomes()
    const usage = JSON.parse(String(stored?.usage))
    const receipt = JSON.parse(String(stored?.receipt))
    assert.deepEqual(
      [usage.target, usage.calls, usage.repaired, usage.cache_hit],
      ['openai/gpt-5-mini', 2, true, false],
    )
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0)
    assert.equal(receipt.form, 'json')
    assert.equal(receipt.repair.raw_text, 'no JSON')
    const sent = stage.models.requests.map(({ body }) => body.messages[0]?.content)
    assert.deepEqual(
      receipt.calls.map(({ instruction }: { instruction: string }) => instruction),
      sent,
    )
    for (const { roles, json_mode } of receipt.calls)
      assert.deepEqual([roles, json_mode], ['merged_system', 'instruction'])
  })
})
