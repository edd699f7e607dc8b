import assert from 'node:assert/strict'
import test from 'node:test'
import { type Static, Type } from './typed-schema.ts'

const point = Type.Object(
  {
    x: Type.Number({ minimum: 0 }),
    kind: Type.Union([Type.Enum(['a', 'b']), Type.Literal('c'), Type.Null()], { description: 'The kind.' }),
    tags: Type.Optional(Type.Array(Type.String(), { maxItems: 3 })),
    sizes: Type.Optional(Type.Record(Type.Integer(), { pattern: '^s', additionalProperties: false })),
    more: Type.Unknown(),
    on: Type.Boolean(),
  },
  { title: 'Point' },
)

/** The compiler checks both what the schema allows and what it does not allow. */
const values: Static<typeof point>[] = [
  { x: 1, kind: 'a', more: undefined, on: true },
  { x: 1, kind: null, more: {}, on: false, tags: ['t'], sizes: { s: 1 } },
  // @ts-expect-error
  { x: 1, kind: 'd', more: 1, on: true },
  // @ts-expect-error
  { x: 1, kind: 'c', on: true },
  // @ts-expect-error
  { x: 1, kind: 'c', more: 1, on: true, tags: [1] },
]

test('a schema is a JSON Schema, in which only properties that are not optional are required', () => {
  assert.equal(values.length, 5)
  const anyOf = [{ enum: ['a', 'b'] }, { type: 'string', const: 'c' }, { type: 'null' }]
  const patternProperties = { '^s': { type: 'integer' } }
  const { properties, ...rest } = JSON.parse(JSON.stringify(point))
  assert.deepEqual(rest, { type: 'object', title: 'Point', required: ['x', 'kind', 'more', 'on'] })
  assert.deepEqual(properties, {
    x: { type: 'number', minimum: 0 },
    kind: { anyOf, description: 'The kind.' },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 3 },
    sizes: { type: 'object', patternProperties, additionalProperties: false },
    more: {},
    on: { type: 'boolean' },
  })
})

test('an object of which all properties are optional requires none', () => {
  assert.deepEqual({ ...Type.Object({ a: Type.Optional(Type.Null()) }) }.required, undefined)
  assert.deepEqual(Type.Record(Type.Null()).patternProperties, { '^.*$': { type: 'null' } })
})
