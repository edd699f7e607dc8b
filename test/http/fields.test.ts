/** Tests every rule for the fields of a job (SPEC §2.1 to §2.4). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { beforeTests } from '../support/on-first-use.ts'
import { BATCHES, type Caller, MESSAGES, startScene } from './caller.ts'
import { completed, enqueued, invalid } from './expect.ts'

onAnyStore(() => {
  let caller: Caller
  beforeTests(async (t) => {
    caller = (await startScene(t)).caller
  })

  const single = (over: object) => caller.create({ ...over })
  const batch = (over: object) => caller.batch([job(), job({ ...over })])
  const without = (field: string) => ({ [field]: undefined })
  const json = (schema: unknown) => ({ response_format: { format: 'json', schema } })
  const user = { role: 'user', content: 'Hello' }
  const MODELS = 'gpt-5, gpt-5.2, gpt-5-mini, gpt-auto'
  const KNOWN_ROLES = 'system, developer, assistant, user'

  const UNKNOWN = 'is not a known field'
  const NO_USER = 'messages: must contain at least one message whose role is user'
  const format = (response_format: unknown) => ({ response_format })
  const messages = (...all: unknown[]) => ({ messages: all })
  const options = (given: object) => ({ options: given })
  const ttl = (message_cache_ttl: unknown) => ({ message_cache_ttl })

  /**
   * Both creates must reject these changes to a valid job with the same message. The text follows `jobs[1].` in the message. If
   * it ends with an ellipsis, the message may continue.
   */
  const REFUSED: readonly [name: string, over: object, details: string][] = [
    ['2.1 model is required', without('model'), 'model: is required'],
    ['2.1 model is a string', { model: 5 }, 'model: must be a string'],
    ['2.1 an unknown model is refused with the list', { model: 'gpt-4' }, `model: must be one of ${MODELS}`],
    ['2.1 no model has an inherited name', { model: 'toString' }, `model: must be one of ${MODELS}`],
    ['2.1 message_cache_ttl is a number', ttl('300'), 'message_cache_ttl: must be a number'],
    ['2.1 message_cache_ttl is not null', ttl(null), 'message_cache_ttl: must be a number'],
    ['2.1 message_cache_ttl of 179', ttl(179), 'message_cache_ttl: must be >= 180'],
    ['2.1 message_cache_ttl of 3601', ttl(3601), 'message_cache_ttl: must be <= 3600'],
    ['2.1 response_format is required', without('response_format'), 'response_format: is required'],
    ['2.1 messages is required', without('messages'), 'messages: is required'],
    ['2.1 messages is an array', { messages: user }, 'messages: must be an array'],
    ['2.1 an unknown field', { temperature: 1 }, `temperature: ${UNKNOWN}`],
    ['2.1 an unknown field with an inherited name', { toString: 1 }, `toString: ${UNKNOWN}`],
    ['2.1 an unknown field, however long', { ['x'.repeat(200)]: 1 }, `${'x'.repeat(80)}…: ${UNKNOWN}`],
    ['a temperature of 2.1', options({ temperature: 2.1 }), 'options.temperature: …'],
    ['a top_p of 0', options({ top_p: 0 }), 'options.top_p: …'],
    ['max_tokens of 0', options({ max_tokens: 0 }), 'options.max_tokens: …'],
    ['max_tokens is an integer', options({ max_tokens: 1.5 }), 'options.max_tokens: must be an integer'],
    ['five texts to stop at', options({ stop: ['a', 'b', 'c', 'd', 'e'] }), 'options.stop: …'],
    ['a seed of 2 ** 53', options({ seed: 2 ** 53 }), 'options.seed: …'],
    [
      'an unknown effort',
      options({ reasoning_effort: 'hard' }),
      'options.reasoning_effort: must be one of …',
    ],
    ['an unknown option', options({ top_k: 5 }), 'options.top_k: …'],
    ...[0, -1, 1.5, 2_592_001, '60', null].map((complete_within): [string, object, string] => [
      `complete_within of ${JSON.stringify(complete_within)}`,
      { complete_within },
      'complete_within: …',
    ]),
    ['2.2 response_format is an object', format('text'), 'response_format: must be an object'],
    ['2.2 format is required', format({}), 'response_format.format: is required'],
    [
      '2.2 format is text or json',
      format({ format: 'xml' }),
      'response_format.format: must be one of text, json',
    ],
    ['2.2 an unknown field', format({ format: 'text', strict: true }), `response_format.strict: ${UNKNOWN}`],
    [
      '2.2 no schema with text',
      format({ format: 'text', schema: {} }),
      'response_format.schema: is only for format json; omit it with format text',
    ],
    ['2.2 schema is an object', json([]), 'response_format.schema: must be an object'],
    ['2.2 schema is no boolean', json(true), 'response_format.schema: must be an object'],
    [
      '2.2 a misspelt keyword is named',
      json({ type: 'object', properties: { a: { minlength: 1 } } }),
      'response_format.schema.properties.a.minlength: is not a keyword; did you mean minLength?',
    ],
    [
      '2.2 a keyword that cannot be enforced is named',
      json({ type: 'object', unevaluatedProperties: false }),
      'response_format.schema.unevaluatedProperties: is not supported; put …',
    ],
    [
      '2.2 a keyword of the wrong type',
      json({ type: 'object', required: 'a' }),
      'response_format.schema.required: must be a list of property names',
    ],
    [
      '2.2 an unknown type',
      json({ type: 'strin' }),
      'response_format.schema.type: must be one of null, boolean, …',
    ],
    [
      '2.2 a reference elsewhere',
      json({ $ref: 'https://example.com/schema' }),
      'response_format.schema.$ref: must refer to a part of this schema…',
    ],
    [
      '2.2 a pattern that no linear-time engine takes',
      json({ type: 'string', pattern: '(a)\\1' }),
      'response_format.schema.pattern: refers back to a group ("\\1"), which is not supported',
    ],
    ['2.3 no user message', messages({ role: 'system', content: 'a' }), NO_USER],
    ['2.3 no message at all', messages(), NO_USER],
    ['2.3 a message is an object', messages(user, 'Hello'), 'messages[1]: must be an object'],
    ['2.3 role is required', messages({ content: 'a' }), 'messages[0].role: is required'],
    [
      '2.3 role is one of four',
      messages(user, { role: 'tool', content: 'a' }),
      `messages[1].role: must be one of ${KNOWN_ROLES}`,
    ],
    ['2.3 content is required', messages({ role: 'user' }), 'messages[0].content: is required'],
    [
      '2.3 content is a string',
      messages({ role: 'user', content: [{ type: 'text', text: 'a' }] }),
      'messages[0].content: must be a string',
    ],
    [
      '2.3 content is not null',
      messages({ role: 'user', content: null }),
      'messages[0].content: must be a string',
    ],
    ['2.3 an unknown field', messages({ ...user, name: 'Ann' }), `messages[0].name: ${UNKNOWN}`],
  ]

  for (const [name, over, details] of REFUSED) {
    test(`${name}: 400 names field and rule`, async () => {
      for (const [answer, path] of [
        [await single(over), ''],
        [await batch(over), 'jobs[1].'],
      ] as const) {
        const beginning = `${path}${details.replace(/…$/, '')}`
        if (!details.endsWith('…')) invalid(answer, beginning)
        else {
          invalid(answer, /./)
          assert.ok(answer.body.details.startsWith(beginning), answer.text)
        }
      }
    })
  }

  test('2.1 timeout of 29, of 121 or no number: 400', async () => {
    for (const [timeout, rule] of [
      [29, 'must be >= 30'],
      [121, 'must be <= 120'],
      ['60', 'must be a number'],
      [null, 'must be a number'],
    ]) {
      invalid(await single({ timeout }), `timeout: ${rule}`)
    }
  })

  test('2.1 timeout in a batch: 400 says where it belongs', async () => {
    const rule = 'is only for single creates (POST /api/v1/messages); a batch runs asynchronously'
    invalid(await batch({ timeout: 60 }), `jobs[1].timeout: ${rule}`)
  })

  test('2.1 callback on a single create: 400 says where it belongs', async () => {
    const rule =
      'is only for batch elements (POST /api/v1/messages/batches); a single create returns the answer in its response'
    invalid(await single({ callback: { callback_url: 'https://example.com' } }), `callback: ${rule}`)
  })

  test('2.1 a field that belongs elsewhere is unknown at any other depth', async () => {
    invalid(await single(messages({ ...user, timeout: 60 })), `messages[0].timeout: ${UNKNOWN}`)
    invalid(await single(format({ format: 'text', callback: {} })), `response_format.callback: ${UNKNOWN}`)
  })

  test('2.1 __proto__ and constructor are unknown fields like any other', async () => {
    for (const name of ['__proto__', 'constructor', 'hasOwnProperty']) {
      const body = JSON.stringify(job()).replace('{', `{"${name}":{"admin":true},`)
      invalid(await caller.post(MESSAGES, body), `${name}: ${UNKNOWN}`)
      invalid(await caller.post(BATCHES, `[${body}]`), `jobs[0].${name}: ${UNKNOWN}`)
    }
  })

  const ACCEPTED: readonly [name: string, over: object][] = [
    ...MODELS.split(', ').map((model): [string, object] => [`2.1 ${model}`, { model }]),
    ['2.1 message_cache_ttl of 180', ttl(180)],
    ['2.1 message_cache_ttl of 3600', ttl(3600)],
    ['2.1 message_cache_ttl of 200.5', ttl(200.5)],
    ['2.3 empty content', messages({ role: 'user', content: '' })],
    ['2.3 NUL, lone surrogates and emoji', messages({ role: 'user', content: 'a\u0000b\ud800c👋' })],
    ['2.3 no message but the user’s', messages(user, user, user)],
  ]

  for (const [name, over] of ACCEPTED) {
    test(`${name} is accepted`, async () => {
      completed(await single(over))
      enqueued(await batch(over), 2)
    })
  }

  test('2.1 timeout of 30 and of 120 is accepted', async () => {
    for (const timeout of [30, 120]) completed(await single({ timeout }))
  })

  test('2.3 text comes back as it was sent, NUL included', async () => {
    const content = 'a\u0000b \u2028 "\\" \u202e 👋🏽 é'
    assert.equal(completed(await caller.ask(content)), `echo: ${content}`)
  })

  test('2.1 of duplicate keys the last one wins', async () => {
    const body = JSON.stringify(job()).replace('{', '{"model":"gpt-4","messages":[],')
    assert.equal(completed(await caller.post(MESSAGES, body)), 'echo: Hello')
  })
})
