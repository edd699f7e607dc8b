/**
 * Tests schemas as generators write them: which are accepted, which keywords are reported as not checked, and which schemas
 * cannot be checked.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { HOSTILE_FAMILIES } from '../support/hostile-schemas.ts'
import { MESSAGES, shareStage, startScene } from './caller.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, failed } from './expect.ts'

const withSchema = (schema: object) => ({ response_format: { format: 'json', schema } })
const object = (properties: object, ...required: string[]) => ({ type: 'object', properties, required })

/** Zod, pydantic and other generators write such unions, tuples, sets and records. */
const GENERATED = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: {
    shape: {
      oneOf: [
        object({ kind: { const: 'circle' }, r: { type: 'number' } }, 'kind', 'r'),
        object({ kind: { const: 'line' } }, 'kind'),
      ],
      discriminator: { propertyName: 'kind' },
    },
    pair: {
      type: 'array',
      prefixItems: [{ type: 'string' }, { type: 'integer' }],
      items: false,
      minItems: 2,
    },
    tags: { type: 'array', items: { type: 'string' }, uniqueItems: true },
    counts: {
      type: 'object',
      propertyNames: { pattern: '^[a-z]+$' },
      additionalProperties: { type: 'integer' },
    },
    file: { allOf: [{ $ref: '#/$defs/File' }], readOnly: true },
  },
  required: ['shape', 'pair', 'tags', 'counts', 'file'],
  $defs: { File: { type: 'string', format: 'base64', contentEncoding: 'base64' } },
}
const GOOD = {
  shape: { kind: 'circle', r: 1 },
  pair: ['a', 1],
  tags: ['a', 'b'],
  counts: { x: 1 },
  file: 'YQ==',
}
const NOT_CHECKED = [
  '/properties/shape/discriminator',
  '/properties/file/readOnly',
  '/$defs/File/format',
  '/$defs/File/contentEncoding',
]

/** JavaScript numbers cannot hold these integers exactly. */
const LARGE_INTEGERS = '{"type":"integer","enum":[9007199254740993,1234567890123456789]}'

onAnyStore(() => {
  const begin = shareStage()

  test('2.2 large integers in a schema reach the model as written, through every API', async (t) => {
    const { parley, caller, models } = await begin(t, () => reply.text('9007199254740993'))
    const says = (content: string) => [{ role: 'user', content }]
    // The body is so long that a thread reads it.
    const many = Array(3000).fill({ role: 'user', content: 'With "quotes".' })
    const format = { format: 'json', schema: 'SCHEMA' }
    const v1Format = { type: 'json_schema', name: 'a', schema: 'SCHEMA' }
    const nested = { type: 'json_schema', json_schema: { name: 'a', schema: 'SCHEMA' } }
    for (const [path, body] of [
      [MESSAGES, { messages: says('1'), response_format: format }],
      [MESSAGES, { messages: many, response_format: format }],
      ['/v1/chat/completions', { messages: says('2'), response_format: nested }],
      ['/v1/chat/completions', { messages: many, response_format: v1Format }],
      ['/v1/responses', { input: '3', text: { format: v1Format } }],
    ] as const) {
      const text = JSON.stringify({ model: 'gpt-5-mini', ...body }).replace('"SCHEMA"', LARGE_INTEGERS)
      const headers = { authorization: `Bearer ${caller.key}` }
      const answer = await parley.post(path, text, caller.key, headers)
      assert.match(answer.text, /9007199254740993/)
      assert.ok(models.completions().at(-1)?.text.includes(LARGE_INTEGERS), path)
    }
  })

  test('2.2 a schema as generators write it is enforced, and what is not checked is listed', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      script: (_request, index) =>
        reply.json(index === 0 ? { ...GOOD, pair: ['a', 'b'], tags: ['a', 'a'], counts: { X: 1 } } : GOOD),
    })
    const answer = await caller.create(withSchema(GENERATED))
    assert.deepEqual(completed(answer), GOOD)
    assert.equal(answer.headers.get('x-parley-ignored'), NOT_CHECKED.join(', '))
    const [first, second, ...others] = models.requests.map(({ body }) => body)
    assert.deepEqual(others, [])
    assert.match(
      String(second?.messages.at(-1)?.content),
      /pair\[1\].*integer\n.*tags.*equal items.*\n.*counts\.X/,
    )
    assert.deepEqual(first?.response_format, {
      type: 'json_schema',
      json_schema: { name: 'answer', schema: GENERATED, strict: false },
    })
    const [stored] = await (await openDatabase(t, parley)).outcomes()
    const receipt = JSON.parse(String(stored?.receipt))
    assert.deepEqual([receipt.strict, receipt.ignored], [false, NOT_CHECKED])
  })

  test('2.2 the schemas of a batch are listed together, within 1 KB', async (t) => {
    const { caller } = await begin(t)
    const keywords = Array.from({ length: 60 }, (_, at) => [`x-é, ${'k'.repeat(20)}${at}`, at])
    const schemas = [GENERATED, { type: 'object' }, GENERATED, Object.fromEntries(keywords)]
    const answer = await caller.batch(schemas.map((schema) => job(withSchema(schema))))
    enqueued(answer, schemas.length)
    const listed = String(answer.headers.get('x-parley-ignored'))
    assert.ok(listed.length <= 1024, `${listed.length}`)
    assert.ok(listed.startsWith(`${NOT_CHECKED.join(', ')}, /x-%C3%A9%2C%20kkk`), listed)
    const named = listed.split(', ').length - 1
    assert.ok(listed.endsWith(`, +${NOT_CHECKED.length + keywords.length - named}`), listed)
    const plain = await caller.create(withSchema({ type: 'object' }))
    assert.equal(plain.headers.get('x-parley-ignored'), null)
  })

  test('3 failed, answer_not_checked: a schema whose branches multiply is not blamed on the model', async (t) => {
    const hostile = HOSTILE_FAMILIES.map((family) => family(30)).find(
      ({ family }) => family === 'branching $ref one step in',
    )
    const text = JSON.stringify(hostile?.answer)
    const { caller, models } = await begin(t, () => reply.text(text))
    const { message, ...error } = failed(await caller.create(withSchema(hostile?.schema as object)))
    assert.deepEqual(error, { code: 'answer_not_checked', raw_text: text })
    assert.match(message, /takes more than \d+ steps\. Simplify the schema/)
    assert.equal(models.requests.length, 1)
  })

  test('2.2 answers of any length are checked', async (t) => {
    const schema = object({
      text: { type: 'string', pattern: '^[^<>]*$' },
      prices: { type: 'array', items: { type: 'number', multipleOf: 0.01 } },
    })
    const long = { text: 'é '.repeat(200_000), prices: Array.from({ length: 10_000 }, (_, at) => at / 100) }
    const { caller, models } = await begin(t, () => reply.json(long))
    assert.deepEqual(completed(await caller.create(withSchema(schema))), long)
    assert.equal(models.requests.length, 1)
  })
})
