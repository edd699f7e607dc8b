import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  MAX_IGNORED,
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

/** In this chain of references, each target comes before the reference to it. */
const refsBack = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`d${at}`, at === 0 ? {} : { $ref: `#/$defs/d${at - 1}` }]),
  )

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#'

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
  { allOf: [{}], anyOf: [{}], oneOf: [{}, false], not: false },
  JSON.parse('{"if":true,"then":{},"else":{}}'),
  { prefixItems: [{}, true], items: false, contains: {}, minContains: 0, maxContains: 2, uniqueItems: true },
  { items: [{}, {}], additionalItems: false },
  { items: [], additionalItems: {} },
  { patternProperties: { '^a': {} }, propertyNames: { pattern: 'a' }, minProperties: 1, maxProperties: 2 },
  {
    dependentRequired: { a: ['b'] },
    dependentSchemas: { a: {} },
    dependencies: { a: ['b'], c: {}, d: false },
  },
  { nullable: true, type: 'string' },
  { minimum: 1, exclusiveMinimum: true, maximum: 2, exclusiveMaximum: false },
  { $defs: { a: { $anchor: 'name' } }, items: { $ref: '#name' } },
  {
    $id: 'https://example.com/root.json',
    items: { $ref: 'https://example.com/root.json#/$defs/a' },
    $defs: { a: {} },
  },
  { $id: 'https://example.com/root.json', items: { $ref: 'root.json' } },
  { $id: 'Node', items: { $ref: 'Node' } },
  { $ref: 'Node', $defs: { Node: { items: { $ref: 'Node' }, $id: 'Node' } } },
  {
    $ref: '#/components/schemas/a',
    components: { schemas: { a: { $ref: '#/components/schemas/b' }, b: {} } },
  },
  { $ref: '#/$defs/a/items/0', $defs: { a: { items: [true] } } },
  { $schema: DRAFT_7, $ref: '#/definitions/a', definitions: { a: {} }, minimum: 1 },
  { $schema: DRAFT_7, items: { $ref: '#name' }, definitions: { a: { $id: '#name' } } },
  {
    // Effect 3 generates this schema.
    $schema: DRAFT_7,
    type: 'object',
    required: ['a', 'b', 'c'],
    properties: {
      a: { $id: '/schemas/unknown', title: 'unknown' },
      b: { $id: '/schemas/unknown', title: 'unknown' },
      c: { $id: '/schemas/%7B%7D', anyOf: [{ type: 'object' }, { type: 'array' }] },
      d: { $ref: '#/$defs/D' },
    },
    additionalProperties: false,
    $defs: { D: { type: 'string' } },
  },
  { format: 'duration', pattern: '^P(?!$)' },
  { $defs: { a: { type: 'string' } }, $ref: '#/$defs/a' },
  { definitions: { 'a/b~c %': {} }, items: { $ref: '#/definitions/a~1b~0c%20%25' } },
  { properties: { a: { anyOf: [{}, { items: {} }] }, b: { $ref: '#/properties/a/anyOf/1/items' } } },
  { additionalProperties: { items: { $ref: '#' } }, items: { $ref: '#/additionalProperties/items' } },
  { $ref: '#/$defs/yes', $defs: { yes: true } },
  { properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } } },
  { $ref: '#/$defs/d0', $defs: refs(MAX_IN_PLACE_DEPTH) },
  { enum: Array.from({ length: MAX_SCHEMA_PARTS - 1 }, (_, at) => at) },
  { enum: [] },
  { prefixItems: [], items: false },
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
  [{ oneOf: {} }, 'schema.oneOf', /a list of schemas/],
  [{ minlength: 1 }, 'schema.minlength', /did you mean minLength/],
  [{ additionalPropertie: false }, 'schema.additionalPropertie', /did you mean additionalProperties/],
  [{ requird: [] }, 'schema.requird', /did you mean required/],
  [{ requiredd: [] }, 'schema.requiredd', /did you mean required/],
  [{ patern: 'a' }, 'schema.patern', /did you mean pattern/],
  [{ maximun: 1 }, 'schema.maximun', /did you mean maximum/],
  [{ uniqueItmes: true }, 'schema.uniqueItmes', /did you mean uniqueItems/],
  [{ divisibleBy: 2 }, 'schema.divisibleBy', /use multipleOf/],
  [{ disallow: 'string' }, 'schema.disallow', /use not/],
  [{ formatMinimum: '2026-01-01' }, 'schema.formatMinimum', /not supported/],
  [{ instanceof: 'Date' }, 'schema.instanceof', /not supported/],
  [{ elements: {} }, 'schema.elements', /items instead/],
  [{ optionalProperties: {} }, 'schema.optionalProperties', /omit their names from required/],
  [{ $dynamicRef: '#a' }, 'schema.$dynamicRef', /use \$ref/],
  [{ unevaluatedProperties: false }, 'schema.unevaluatedProperties', /not supported/],
  [{ unevaluatedItems: false }, 'schema.unevaluatedItems', /not supported/],
  [
    { properties: { a: { $id: 'x' }, b: { $ref: 'x' } } },
    'schema.properties.a.$id',
    /only supported at the root/,
  ],
  [
    { properties: { a: { $id: 'x', items: { $ref: '#/properties/b' } }, b: {} } },
    'schema.properties.a.$id',
    /only supported at the root/,
  ],
  [
    { properties: { a: { $id: 'x', $anchor: 'a' } }, items: { $ref: '#a' } },
    'schema.properties.a.$id',
    /only supported at the root/,
  ],
  [
    { items: { $id: 'x', $schema: DRAFT_7, exclusiveMinimum: 1 } },
    'schema.items.$id',
    /only supported at the root/,
  ],
  [
    { $defs: { a: { $id: 'https://a.example/a' } }, items: { $ref: 'https://a.example/a' } },
    'schema.$defs.a.$id',
    /only supported at the root/,
  ],
  [
    { $defs: { a: { $id: 'a', items: { $ref: '#/$defs/b' } } } },
    'schema.$defs.a.$id',
    /only supported at the root/,
  ],
  [{ $defs: { a: { $id: 'a', items: { $ref: '' } } } }, 'schema.$defs.a.$id', /only supported at the root/],
  [
    { $defs: { a: { $id: 'a', items: { $anchor: 'b' } } } },
    'schema.$defs.a.$id',
    /only supported at the root/,
  ],
  [{ $defs: { a: { $id: 'a' }, b: { $id: 'a' } } }, 'schema.$defs.b.$id', /another schema has the same name/],
  [
    { $id: 'https://a.example/x', $ref: 'https://b.example/x' },
    'schema.$ref',
    /must refer to a part of this schema/,
  ],
  [
    { $defs: { a: { $anchor: 'n' }, b: { $anchor: 'n' } } },
    'schema.$defs.b.$anchor',
    /another schema has the same name/,
  ],
  [{ $anchor: '1' }, 'schema.$anchor', /begins with a letter/],
  [{ nullable: 1 }, 'schema.nullable', /true or false/],
  [{ uniqueItems: 1 }, 'schema.uniqueItems', /true or false/],
  [{ patternProperties: { '(?=a)': {} } }, 'schema.patternProperties["(?=a)"]', /has a lookahead/],
  [{ pattern: '(?=a)', format: 'password' }, 'schema.pattern', /has a lookahead/],
  [{ dependencies: { a: 1 } }, 'schema.dependencies.a', /must be a schema/],
  [{ dependentRequired: { a: [1] } }, 'schema.dependentRequired.a', /list of property names/],
  [{ prefixItems: {} }, 'schema.prefixItems', /a list of schemas/],
  [{ prefixItems: [{}], items: [{}] }, 'schema.items', /after prefixItems/],
  [
    { $ref: '#/components/a', components: { a: { patern: 1 } } },
    'schema.components.a.patern',
    /did you mean/,
  ],
  [{ allOf: [{ $ref: '#' }] }, 'schema.allOf', /refers to itself/],
  [{ not: { $ref: '#' } }, 'schema.not', /refers to itself/],
  [{ dependentSchemas: { a: { $ref: '#' } } }, 'schema.dependentSchemas', /refers to itself/],
  [{ type: 'int' }, 'schema.type', /must be one of null, boolean/],
  [{ type: [] }, 'schema.type', /or a list of them/],
  [{ type: ['string', 1] }, 'schema.type', /must be one of/],
  [{ type: Array(8).fill('string') }, 'schema.type', /or a list of them/],
  [{ properties: [] }, 'schema.properties', /must be an object whose values/],
  [{ properties: { a: 1 } }, 'schema.properties.a', /must be a schema/],
  [
    { properties: { 'a b': { items: { extends: 1 } } } },
    'schema.properties["a b"].items.extends',
    /use allOf/,
  ],
  [{ required: true }, 'schema.required', /same schema as those properties/],
  [{ required: 'a' }, 'schema.required', /list of property names/],
  [{ required: [1] }, 'schema.required', /list of property names/],
  [{ additionalProperties: 1 }, 'schema.additionalProperties', /must be a schema/],
  [{ enum: {} }, 'schema.enum', /must be a list/],
  [{ anyOf: 'a' }, 'schema.anyOf', /a list of schemas/],
  [{ anyOf: [{}, { values: 1 }] }, 'schema.anyOf[1].values', /additionalProperties/],
  [{ $ref: 1 }, 'schema.$ref', /must be a string/],
  [{ $ref: 'http://x/y' }, 'schema.$ref', /"http:\/\/x\/y" does not/],
  [{ $ref: '#name' }, 'schema.$ref', /which is not a schema/],
  [{ items: { $ref: '#/$defs/x' } }, 'schema.items.$ref', /which is not a schema/],
  [{ items: { $ref: '#/$defs/toString' }, $defs: {} }, 'schema.items.$ref', /not a schema/],
  [{ items: { $ref: '#/$defs' }, $defs: {} }, 'schema.items.$ref', /not a schema/],
  [{ items: { $ref: '#/enum/0' }, enum: [{}] }, 'schema.items.$ref', /not a schema/],
  [{ items: { $ref: '#/anyOf/01' }, anyOf: [{}, {}] }, 'schema.items.$ref', /not a schema/],
  [{ items: { $ref: '#/$defs/%zz' }, $defs: {} }, 'schema.items.$ref', /not a schema/],
  [{ items: { $ref: `#${'/items'.repeat(MAX_POINTER_LENGTH)}` } }, 'schema.items.$ref', /not a schema/],
  [{ $ref: '#' }, 'schema.$ref', /refers to itself/],
  [{ anyOf: [{}, { $ref: '#' }] }, 'schema.anyOf', /refers to itself/],
  [{ $ref: '#/$defs/d0', $defs: refs(MAX_IN_PLACE_DEPTH + 3) }, 'schema.$ref', /nests more than/],
  [
    { $defs: refsBack(MAX_IN_PLACE_DEPTH + 3) },
    `schema.$defs.d${MAX_IN_PLACE_DEPTH + 1}.$ref`,
    /nests more than/,
  ],
  [{ $defs: 1 }, 'schema.$defs', /must be an object whose values/],
  [{ $defs: { a: { mapping: 1 } } }, 'schema.$defs.a.mapping', /not supported/],
  [{ title: 1 }, 'schema.title', /must be a string/],
  [{ description: null }, 'schema.description', /must be a string/],
  [{ minimum: '1' }, 'schema.minimum', /must be a number/],
  [JSON.parse('{"maximum":1e400}'), 'schema.maximum', /must be a number/],
  [{ exclusiveMinimum: true }, 'schema.exclusiveMinimum', /next to minimum/],
  [{ multipleOf: 0 }, 'schema.multipleOf', /greater than 0/],
  [{ minLength: -1 }, 'schema.minLength', /non-negative integer/],
  [{ maxLength: 1.5 }, 'schema.maxLength', /non-negative integer/],
  [{ minItems: '1' }, 'schema.minItems', /non-negative integer/],
  [{ maxItems: null }, 'schema.maxItems', /non-negative integer/],
  [{ pattern: 1 }, 'schema.pattern', /must be a string/],
  [{ pattern: '(?=a)' }, 'schema.pattern', /has a lookahead/],
  [{ format: 1 }, 'schema.format', /must be a string/],
  [deep(MAX_SCHEMA_DEPTH), `schema${'.items'.repeat(MAX_SCHEMA_DEPTH)}`, /schemas deep/],
  [{ const: nested(MAX_SCHEMA_DEPTH + 1) }, 'schema.const', /values more than/],
  [{ enum: Array(MAX_SCHEMA_PARTS).fill(1) }, 'schema.enum', /exceed 20000 parts/],
  [{ const: Array(MAX_SCHEMA_PARTS).fill(1) }, 'schema.const', /exceed 20000 parts/],
  [{ required: Array(MAX_SCHEMA_PARTS).fill('a') }, 'schema.required', /exceed 20000 parts/],
  [
    { dependentRequired: Object.fromEntries(Array.from({ length: MAX_SCHEMA_PARTS }, (_, at) => [at, []])) },
    'schema.dependentRequired',
    /exceed 20000 parts/,
  ],
  [{ anyOf: Array(MAX_SCHEMA_PARTS).fill({}) }, 'schema.anyOf', /exceed 20000 parts/],
  [
    { properties: Object.fromEntries(Array.from({ length: MAX_SCHEMA_PARTS }, (_, at) => [`p${at}`, {}])) },
    'schema.properties',
    /exceed 20000 parts/,
  ],
  [
    { anyOf: Array(MAX_PATTERNS_SIZE / 5000 + 1).fill({ pattern: 'a{5000}' }) },
    'schema.anyOf[10].pattern',
    /makes the patterns/,
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

/** Each schema has the pointers to its keywords that are accepted but not enforced. */
const IGNORED: [schema: unknown, ...pointers: string[]][] = [
  [{ type: 'string', title: 't', description: 'd', default: 'x', $comment: 'c' }],
  [{ readOnly: true, writeOnly: true, deprecated: true }, '/readOnly', '/writeOnly', '/deprecated'],
  [
    { properties: { 'a/b~c': { example: 1, examples: [1] } } },
    '/properties/a~1b~0c/example',
    '/properties/a~1b~0c/examples',
  ],
  [{ anyOf: [{}, { discriminator: {} }] }, '/anyOf/1/discriminator'],
  [{ contentEncoding: 'base64', contentMediaType: 'text/plain' }, '/contentEncoding', '/contentMediaType'],
  [
    { 'x-order': 1, 'x-patern': 1, errorMessage: 'x', constructor: 1 },
    '/x-order',
    '/x-patern',
    '/errorMessage',
    '/constructor',
  ],
  [JSON.parse('{"__proto__":1}'), '/__proto__'],
  [{ format: 'base64' }, '/format'],
  [{ format: 'uuid' }],
  [{ format: 'hostname', pattern: '^(?=.{1,253}$)a' }, '/pattern'],
  [
    JSON.parse('{"then":{},"minContains":1,"additionalItems":{}}'),
    '/then',
    '/minContains',
    '/additionalItems',
  ],
  [{ $schema: 'https://example.com/meta' }, '/$schema'],
  [{ $schema: DRAFT_7, items: { $ref: '#', minItems: 1, title: 't' } }, '/items/minItems'],
]

test('what is accepted and not enforced is listed', () => {
  for (const [schema, ...pointers] of IGNORED) {
    const read = readSchema(schema)
    assert.ok(read.ok, JSON.stringify(schema))
    assert.deepEqual(read.schema.ignored, { pointers, more: 0 })
  }
})

test('a long list of ignored keywords is cut, and the rest counted', () => {
  const read = readSchema(Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`x-${at}`, at])))
  assert.ok(read.ok)
  const { pointers, more } = read.schema.ignored
  assert.equal(pointers.length, MAX_IGNORED)
  assert.equal(pointers.length + more, 200)
  const long = readSchema({ properties: { ['a'.repeat(1000)]: { 'x-a': 1 } } })
  assert.ok(long.ok)
  assert.deepEqual(long.schema.ignored, { pointers: [], more: 1 })
})
