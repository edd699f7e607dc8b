import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSchema } from './read-schema.ts'
import {
  meetsStrictRules,
  STRICT_LARGE_ENUM,
  STRICT_MAX_DEPTH,
  STRICT_MAX_ENUM_VALUES,
  STRICT_MAX_PROPERTIES,
} from './strict-rules.ts'

type Properties = Record<string, unknown>

/** The schema requires exactly these properties. */
const closed = (properties: Properties, more: Properties = {}): Properties => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
})

const deep = (depth: number): unknown => (depth === 0 ? { type: 'string' } : closed({ a: deep(depth - 1) }))
const many = (count: number) =>
  closed(Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { type: 'null' }])))
const values = (count: number, length: number) =>
  closed({
    a: { type: 'string', enum: Array.from({ length: count }, (_, at) => String(at).padStart(length)) },
  })

const STRICT: unknown[] = [
  closed({}),
  closed({ a: { type: ['string', 'null'], description: 'x', title: 'y', format: 'email', pattern: 'a' } }),
  closed({
    a: { type: 'array', items: { type: 'integer', minimum: 1, maximum: 2 }, minItems: 1, maxItems: 2 },
  }),
  closed({ a: { anyOf: [closed({ k: { type: 'string', const: 'x' } }), { type: 'null' }] } }),
  closed({ a: { $ref: '#/$defs/b' } }, { $defs: { b: closed({ c: { $ref: '#' } }) } }),
  closed({ a: { $ref: '#/definitions/b' } }, { definitions: { b: { type: 'string', enum: ['x'] } } }),
  closed({ a: { type: 'boolean' } }, { $schema: 'http://json-schema.org/draft-07/schema#' }),
  deep(STRICT_MAX_DEPTH),
  many(STRICT_MAX_PROPERTIES),
  values(STRICT_MAX_ENUM_VALUES, 5),
  values(STRICT_LARGE_ENUM, 400),
]

const NOT_STRICT: unknown[] = [
  {},
  { type: 'array', items: { type: 'string' } },
  { type: ['object'], properties: {}, required: [], additionalProperties: false },
  { anyOf: [closed({})] },
  closed({}, { anyOf: [closed({})] }),
  { $ref: '#/$defs/a', $defs: { a: closed({}) } },
  { type: 'object', properties: { a: { type: 'null' } }, required: ['a'] },
  { type: 'object', properties: { a: { type: 'null' } }, required: ['a'], additionalProperties: true },
  { type: 'object', properties: { a: { type: 'null' } }, additionalProperties: false },
  { type: 'object', properties: { a: { type: 'null' } }, required: [], additionalProperties: false },
  { type: 'object', properties: { a: { type: 'null' } }, required: ['a', 'b'], additionalProperties: false },
  { type: 'object', additionalProperties: false },
  closed({ a: {} }),
  closed({ a: true }),
  closed({ a: { enum: ['x'] } }),
  closed({ a: { type: 'string', enum: [] } }),
  closed({ a: { anyOf: [] } }),
  closed({ a: { type: 'array' } }),
  closed({ a: { type: 'array', items: { type: 'object' } } }),
  closed({ a: { type: ['object', 'null'] } }),
  closed({ a: { type: 'string', properties: {} } }),
  closed({ a: { type: 'string', items: { type: 'string' } } }),
  closed({ a: { type: 'string', format: 'uri' } }),
  closed({ a: { type: 'string', default: 'x' } }),
  closed({ a: { type: 'string', minLength: 1 } }),
  closed({ a: { type: 'string', examples: ['x'] } }),
  closed({ a: { type: 'object', const: {} } }),
  closed({ a: { $ref: '#/$defs/b', description: 'x' } }, { $defs: { b: { type: 'null' } } }),
  closed({ a: { $ref: '#/properties/b' }, b: { type: 'null' } }),
  closed({ a: { type: 'null' } }, { $defs: { b: { type: 'object' } } }),
  closed({ a: { anyOf: [{ type: 'object' }] } }),
  deep(STRICT_MAX_DEPTH + 1),
  many(STRICT_MAX_PROPERTIES + 1),
  values(STRICT_MAX_ENUM_VALUES + 1, 1),
  values(STRICT_LARGE_ENUM + 1, 60),
  values(STRICT_LARGE_ENUM, 500),
]

function isStrict(schema: unknown): boolean {
  const read = readSchema(schema)
  assert.ok(read.ok, JSON.stringify(schema).slice(0, 200))
  return meetsStrictRules(read.schema)
}

test('schemas within the strict rules are distinguished from all others', () => {
  for (const schema of STRICT) assert.ok(isStrict(schema), `strict: ${JSON.stringify(schema).slice(0, 300)}`)
  for (const schema of NOT_STRICT)
    assert.ok(!isStrict(schema), `not strict: ${JSON.stringify(schema).slice(0, 300)}`)
})
