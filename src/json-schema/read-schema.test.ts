import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  MAX_IN_PLACE_DEPTH,
  MAX_PATTERNS_SIZE,
  MAX_POINTER_LENGTH,
  MAX_SCHEMA_DEPTH,
  MAX_SCHEMA_PARTS,
} from './limits.ts'
import { readSchema } from './read-schema.ts'

const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)])
const deep = (depth: number): unknown => (depth === 0 ? {} : { items: deep(depth - 1) })
const refs = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [
      `d${at}`,
      at === count - 1 ? {} : { $ref: `#/$defs/d${at + 1}` },
    ]),
  )

/** The same chain in an order in which each link is known when the next is followed. */
const refsBack = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`d${at}`, at === 0 ? {} : { $ref: `#/$defs/d${at - 1}` }]),
  )

const ACCEPTED: unknown[] = [
  {},
  { type: 'string' },
  { type: ['string', 'null'] },
  {
    properties: { a: true, b: false, ['__proto__']: {} },
    required: ['a', 'toString'],
    additionalProperties: false,
  },
  { additionalProperties: { type: 'integer' } },
  { items: { enum: [1, 'a', null, { a: [1] }] }, minItems: 0, maxItems: 1.0 },
  { anyOf: [{ type: 'null' }, true] },
  { const: null, default: { any: 'thing' }, title: '', description: '' },
  { minimum: -1.5, maximum: 2, exclusiveMinimum: 0, exclusiveMaximum: 1, multipleOf: 0.1 },
  { minLength: 1, maxLength: 2, pattern: '^a+$', format: 'uri' },
  { $schema: 'x', $id: 'y', $comment: 'z', examples: [1], deprecated: true },
  { $defs: { a: { type: 'string' } }, $ref: '#/$defs/a' },
  { definitions: { 'a/b~c %': {} }, items: { $ref: '#/definitions/a~1b~0c%20%25' } },
  { properties: { a: { anyOf: [{}, { items: {} }] }, b: { $ref: '#/properties/a/anyOf/1/items' } } },
  { additionalProperties: { items: { $ref: '#' } }, items: { $ref: '#/additionalProperties/items' } },
  { $ref: '#/$defs/yes', $defs: { yes: true } },
  { properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } } },
  { $ref: '#/$defs/d0', $defs: refs(MAX_IN_PLACE_DEPTH) },
  { enum: Array.from({ length: MAX_SCHEMA_PARTS - 1 }, (_, at) => at) },
  deep(MAX_SCHEMA_DEPTH - 1),
]

test('schemas of the supported keywords are accepted', () => {
  for (const schema of ACCEPTED) {
    const read = readSchema(schema)
    assert.ok(read.ok, `${JSON.stringify(schema).slice(0, 200)}: ${read.ok || read.rule}`)
  }
})

const REFUSED: [schema: unknown, path: string, rule: RegExp][] = [
  [true, 'schema', /must be an object/],
  [null, 'schema', /must be an object/],
  [[], 'schema', /must be an object/],
  [{ nullable: true }, 'schema.nullable', /type: \[\.\.\., "null"\]/],
  [{ oneOf: [] }, 'schema.oneOf', /write anyOf/],
  [{ constructor: 1 }, 'schema.constructor', /not supported; the keywords are type,/],
  [JSON.parse('{"__proto__":1}'), 'schema.__proto__', /not supported/],
  [{ minlength: 1 }, 'schema.minlength', /did you mean minLength/],
  [{ 'a b': 1 }, 'schema["a b"]', /not supported/],
  [{ ['x'.repeat(200)]: 1 }, `schema["${'x'.repeat(79)}…"]`, /not supported/],
  [{ type: 'int' }, 'schema.type', /must be one of null, boolean/],
  [{ type: [] }, 'schema.type', /or a list of them/],
  [{ type: ['string', 1] }, 'schema.type', /must be one of/],
  [{ type: Array(8).fill('string') }, 'schema.type', /or a list of them/],
  [{ properties: [] }, 'schema.properties', /must be an object whose values/],
  [{ properties: { a: 1 } }, 'schema.properties.a', /must be a schema/],
  [{ properties: { 'a b': { items: { x: 1 } } } }, 'schema.properties["a b"].items.x', /not supported/],
  [{ required: true }, 'schema.required', /beside the properties/],
  [{ required: 'a' }, 'schema.required', /list of property names/],
  [{ required: [1] }, 'schema.required', /list of property names/],
  [{ additionalProperties: 1 }, 'schema.additionalProperties', /must be a schema/],
  [{ items: [{}] }, 'schema.items', /not a list/],
  [{ enum: [] }, 'schema.enum', /at least one/],
  [{ enum: {} }, 'schema.enum', /must be a list/],
  [{ anyOf: [] }, 'schema.anyOf', /at least one/],
  [{ anyOf: [{}, { foo: 1 }] }, 'schema.anyOf[1].foo', /not supported/],
  [{ $ref: 1 }, 'schema.$ref', /must be a string/],
  [{ $ref: 'http://x/y' }, 'schema.$ref', /"http:\/\/x\/y" does not/],
  [{ $ref: '#name' }, 'schema.$ref', /must point into/],
  [{ items: { $ref: '#/$defs/x' } }, 'schema.items.$ref', /where there is no schema/],
  [{ items: { $ref: '#/$defs/toString' }, $defs: {} }, 'schema.items.$ref', /no schema/],
  [{ items: { $ref: '#/$defs' }, $defs: {} }, 'schema.items.$ref', /no schema/],
  [{ items: { $ref: '#/enum/0' }, enum: [{}] }, 'schema.items.$ref', /no schema/],
  [{ items: { $ref: '#/anyOf/01' }, anyOf: [{}, {}] }, 'schema.items.$ref', /no schema/],
  [{ items: { $ref: '#/$defs/%zz' }, $defs: {} }, 'schema.items.$ref', /no schema/],
  [{ items: { $ref: `#${'/items'.repeat(MAX_POINTER_LENGTH)}` } }, 'schema.items.$ref', /no schema/],
  [{ $ref: '#' }, 'schema.$ref', /refers back to itself/],
  [{ anyOf: [{}, { $ref: '#' }] }, 'schema.anyOf', /refers back to itself/],
  [{ $ref: '#/$defs/d0', $defs: refs(MAX_IN_PLACE_DEPTH + 3) }, 'schema.$ref', /leads through more than/],
  [
    { $defs: refsBack(MAX_IN_PLACE_DEPTH + 3) },
    `schema.$defs.d${MAX_IN_PLACE_DEPTH + 1}.$ref`,
    /leads through more than/,
  ],
  [{ $defs: 1 }, 'schema.$defs', /must be an object whose values/],
  [{ $defs: { a: { foo: 1 } } }, 'schema.$defs.a.foo', /not supported/],
  [{ title: 1 }, 'schema.title', /must be a string/],
  [{ description: null }, 'schema.description', /must be a string/],
  [{ minimum: '1' }, 'schema.minimum', /must be a number/],
  [JSON.parse('{"maximum":1e400}'), 'schema.maximum', /must be a number/],
  [{ exclusiveMinimum: true }, 'schema.exclusiveMinimum', /the bound itself/],
  [{ multipleOf: 0 }, 'schema.multipleOf', /greater than 0/],
  [{ minLength: -1 }, 'schema.minLength', /whole number/],
  [{ maxLength: 1.5 }, 'schema.maxLength', /whole number/],
  [{ minItems: '1' }, 'schema.minItems', /whole number/],
  [{ maxItems: null }, 'schema.maxItems', /whole number/],
  [{ pattern: 1 }, 'schema.pattern', /must be a string/],
  [{ pattern: '(?=a)' }, 'schema.pattern', /looks ahead/],
  [{ format: 'password' }, 'schema.format', /must be one of date-time, .*write a pattern/],
  [{ format: 1 }, 'schema.format', /must be a string/],
  [deep(MAX_SCHEMA_DEPTH), `schema${'.items'.repeat(MAX_SCHEMA_DEPTH)}`, /schemas deep/],
  [{ const: nested(MAX_SCHEMA_DEPTH + 1) }, 'schema.const', /values more than/],
  [{ enum: Array(MAX_SCHEMA_PARTS).fill(1) }, 'schema.enum', /over 20000 parts/],
  [{ const: Array(MAX_SCHEMA_PARTS).fill(1) }, 'schema.const', /over 20000 parts/],
  [{ required: Array(MAX_SCHEMA_PARTS).fill('a') }, 'schema.required', /over 20000 parts/],
  [{ anyOf: Array(MAX_SCHEMA_PARTS).fill({}) }, 'schema.anyOf', /over 20000 parts/],
  [
    { properties: Object.fromEntries(Array.from({ length: MAX_SCHEMA_PARTS }, (_, at) => [`p${at}`, {}])) },
    'schema.properties',
    /over 20000 parts/,
  ],
  [
    { anyOf: Array(MAX_PATTERNS_SIZE / 5000 + 1).fill({ pattern: 'a{5000}' }) },
    'schema.anyOf[10].pattern',
    /takes the patterns/,
  ],
]

test('everything else is refused, naming its path and the remedy', () => {
  for (const [schema, path, rule] of REFUSED) {
    const read = readSchema(schema)
    assert.ok(!read.ok, `${JSON.stringify(schema).slice(0, 200)} is accepted`)
    assert.equal(read.path, path)
    assert.match(read.rule, rule)
  }
})
