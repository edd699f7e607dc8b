import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONG } from '../../test/support/long-form.ts'
import { GOOD_PATTERNS, wellFormed } from '../../test/support/random-schemas.ts'
import { checkAnswer } from './check-answer.ts'
import { makeExample } from './make-example.ts'
import { readSchema } from './read-schema.ts'
import { FORMAT_NAMES } from './string-formats.ts'

const RUNS = LONG ? 10_000 : 2000

function made(schema: unknown): unknown {
  const read = readSchema(schema)
  assert.ok(read.ok, `${JSON.stringify(schema)}: ${read.ok || `${read.path} ${read.rule}`}`)
  const example = makeExample(read.schema)
  assert.ok(example !== null, `none for ${JSON.stringify(schema)}`)
  assert.deepEqual(checkAnswer(read.schema, example.value), { ok: true })
  return example.value
}

const object = (properties: Record<string, unknown>, required = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})

const EXACT: [schema: unknown, value: unknown][] = [
  [{}, 'simulated answer'],
  [{ type: 'null' }, null],
  [{ type: 'boolean' }, true],
  [{ type: 'integer' }, 1],
  [{ type: ['null', 'string'] }, 'simulated answer'],
  [{ enum: ['x', 'y'] }, 'x'],
  [{ const: { a: 1 } }, { a: 1 }],
  [{ enum: [1, 'y'], type: 'string' }, 'y'],
  [{ type: 'integer', default: 7 }, 7],
  [{ type: 'integer', default: 'bad' }, 1],
  [{ type: 'integer', minimum: 5 }, 5],
  [{ exclusiveMinimum: 5, type: 'integer' }, 6],
  [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }, 0.25],
  [{ type: 'number', exclusiveMinimum: 4.5, exclusiveMaximum: 4.75 }, 4.625],
  [{ type: 'number', multipleOf: 0.1, minimum: 1.05, maximum: 1.19 }, 1.1],
  [{ type: 'number', multipleOf: 0.1, minimum: 0.25, maximum: 0.36 }, 0.3],
  [{ type: 'string', pattern: '^(?:abc|x)$', maxLength: 2 }, 'x'],
  [{ type: 'string', pattern: '^a{2,5}$', maxLength: 2 }, 'aa'],
  [{ type: 'integer', multipleOf: 7, minimum: 8 }, 14],
  [{ type: 'string', maxLength: 3 }, 'sim'],
  [{ type: 'array', items: { type: 'integer' } }, [1]],
  [{ type: 'array', items: { type: 'integer' }, minItems: 3 }, [1, 1, 1]],
  [{ type: 'array', items: { type: 'integer' }, maxItems: 0 }, []],
  [
    object({ name: { type: 'string' }, age: { type: 'integer' } }, ['age']),
    { name: 'simulated name', age: 1 },
  ],
  [{ type: 'object', required: ['x'] }, { x: 'simulated x' }],
  [{ type: 'object', required: ['x'], additionalProperties: { type: 'null' } }, { x: null }],
  [JSON.parse('{"properties":{"__proto__":{"type":"null"}}}'), JSON.parse('{"__proto__":null}')],
  [{ anyOf: [false, { type: 'integer' }] }, 1],
  [{ $ref: '#/$defs/a', minimum: 0, $defs: { a: { type: 'integer' } } }, 1],
  [
    {
      type: 'object',
      properties: { a: { type: 'integer' } },
      anyOf: [{ required: ['b'] }, { required: ['a'] }],
    },
    { b: 'simulated b', a: 1 },
  ],
  [
    {
      ...object({ kind: { type: 'string' }, label: { type: 'string' } }),
      anyOf: [{ properties: { kind: { const: 'circle' } } }, { properties: { kind: { const: 'square' } } }],
    },
    { kind: 'circle', label: 'simulated label' },
  ],
]

test('examples are plausible, and always the same', () => {
  for (const [schema, value] of EXACT) assert.deepEqual(made(schema), value, JSON.stringify(schema))
})

test('a recursive schema gives an example that ends at once', () => {
  const node = { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } }
  assert.deepEqual(made({ $ref: '#/$defs/node', $defs: { node: object(node) } }), { value: 1, next: null })
  const tree = object({ children: { type: 'array', items: { $ref: '#' } } })
  assert.deepEqual(made(tree), { children: [] })
  assert.deepEqual(made(object({ self: { $ref: '#' } }, [])), {})
  assert.deepEqual(made({ type: ['object', 'null'], properties: { a: { $ref: '#' } }, required: ['a'] }), {
    a: null,
  })
})

test('texts are made for each format, with or without a length', () => {
  for (const format of FORMAT_NAMES) made({ type: 'string', format })
  for (const format of ['email', 'hostname', 'uri']) made({ type: 'string', format, minLength: 40 })
})

const PATTERNS = [
  ...GOOD_PATTERNS,
  '^\\+?[1-9]\\d{1,14}$',
  '^(?:[0-9a-f]{2}:){5}[0-9a-f]{2}$',
  '^#[0-9A-Fa-f]{6}$',
  '^(?:GET|POST) /[a-z]+(?:/[a-z]+)*$',
  '^\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])$',
  '^[^\\x00-\\x7f]+$',
  '^[\\u4e00-\\u9fa5]{2,4}$',
  '^\\P{L}{3}$',
  '^v\\d+\\.\\d+\\.\\d+(?:-[\\w.]+)?$',
  '\\bword\\b',
]

test('texts are made for ordinary patterns', () => {
  for (const pattern of PATTERNS) made({ type: 'string', pattern })
  for (const pattern of ['^a+$', '^[a-z ]*$', '^\\d+-$', 'b', '^x', 'x$'])
    made({ type: 'string', pattern, minLength: 50, maxLength: 60 })
})

test('where there is no example, or none is found, that is said', () => {
  const schemas: unknown[] = [
    { type: 'object', properties: { a: false }, required: ['a'] },
    object({ self: { $ref: '#' } }),
    { type: 'integer', minimum: 1.1, maximum: 1.9 },
    { type: 'string', minLength: 2, maxLength: 1 },
    { type: 'string', pattern: '^a$', minLength: 2 },
    { enum: [1], type: 'string' },
    { type: 'array', minItems: 9e15 },
    { type: 'string', minLength: 9e15 },
    { anyOf: [false] },
    { type: 'object', required: ['a'], additionalProperties: false },
  ]
  for (const schema of schemas) {
    const read = readSchema(schema)
    assert.ok(read.ok)
    assert.equal(makeExample(read.schema), null, JSON.stringify(schema))
  }
})

test(`${RUNS} generated schemas: an example passes the check, and most schemas get one`, () => {
  let count = 0
  fc.assert(
    fc.property(wellFormed, (schema) => {
      const read = readSchema(schema)
      if (!read.ok) return assert.match(read.rule, /refers to itself/)
      const example = makeExample(read.schema)
      if (example === null) return
      count++
      assert.deepEqual(checkAnswer(read.schema, example.value), { ok: true })
      assert.deepEqual(makeExample(read.schema), example)
    }),
    { numRuns: RUNS, seed: 11 },
  )
  assert.ok(count > 0.8 * RUNS, `only ${count} of ${RUNS} schemas got an example`)
})

test('schemas as generators write them give an example', () => {
  const circle = object({ kind: { const: 'circle' }, r: { type: 'number' } })
  const line = object({ kind: { const: 'line' } })
  const schemas: object[] = [
    { oneOf: [circle, line] },
    {
      allOf: [{ $ref: '#/$defs/a' }, { properties: { b: { type: 'integer' } }, required: ['b'] }],
      $defs: { a: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] } },
    },
    { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false, minItems: 2 },
    { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'null' }, minItems: 3 },
    { type: 'array', items: { type: 'string' }, uniqueItems: true, minItems: 3 },
    { type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 3 },
    { type: 'array', contains: { const: 7 }, minContains: 2 },
    { type: 'object', additionalProperties: { type: 'integer' }, minProperties: 3 },
    {
      type: 'object',
      propertyNames: { enum: ['a', 'b'] },
      additionalProperties: { type: 'integer' },
      minProperties: 2,
    },
    {
      type: 'object',
      patternProperties: { '^[a-z]{3}$': { type: 'integer' } },
      additionalProperties: false,
      minProperties: 1,
    },
    { ...object({ a: {} }), dependentRequired: { a: ['b'] }, additionalProperties: true },
    { not: { type: 'string' } },
    JSON.parse('{"type":"integer","if":{"minimum":10},"then":{"multipleOf":10},"else":{"minimum":5}}'),
    { type: 'string', nullable: true },
  ]
  for (const schema of schemas) {
    const read = readSchema(schema)
    assert.ok(read.ok, JSON.stringify(schema))
    const example = makeExample(read.schema)
    assert.ok(example !== null, JSON.stringify(schema))
    assert.ok(checkAnswer(read.schema, example.value).ok)
  }
  assert.deepEqual(
    made({ type: 'object', propertyNames: { enum: ['a'] }, additionalProperties: { type: 'integer' } }),
    { a: 1 },
  )
  assert.deepEqual(made({ oneOf: [line, circle] }), { kind: 'line' })
})
