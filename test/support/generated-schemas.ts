/** Schemas and answers for the tests of this folder: well-formed ones at random, and hostile ones by family. */
import fc from 'fast-check'

/** Names that are dangerous in a language with prototypes, beside ordinary ones. */
export const NAMES = [
  'a',
  'b',
  'name',
  'a b',
  '',
  'é',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
]

const name = fc.constantFrom(...NAMES)

/** Keyword values are made by `Object.fromEntries`, so that `__proto__` becomes a key like any other. */
function object<T>(entries: fc.Arbitrary<[string, T][]>): fc.Arbitrary<Record<string, T>> {
  return entries.map((pairs) => Object.fromEntries(pairs))
}

/** Any JSON value, with the dangerous names as keys. */
export const anyValue: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, 1, -1, 1.5, 3, 100, 1e300, '', 'a', 'ab', 'simulated', 'é😀'),
    fc.string({ maxLength: 8 }),
    fc.double({ noNaN: true }),
    fc.array(tie('value'), { maxLength: 4 }),
    object(fc.array(fc.tuple(name, tie('value')), { maxLength: 4 })),
  ),
})).value

const sized = fc.integer({ min: 0, max: 12 })
const bounded = fc.oneof(fc.integer({ min: -20, max: 20 }), fc.constantFrom(0.5, -2.5, 1e9, 1e-3))

export const GOOD_PATTERNS = [
  '^a+$',
  '^[A-Z]{2}\\d{4}$',
  'b',
  '^(?:x|yy)*z$',
  '^\\p{L}+$',
  '^.{2,5}$',
  '^\\S+@\\S+$',
  '',
] as const

const text = fc.record(
  {
    type: fc.constant('string'),
    minLength: sized,
    maxLength: sized.map((size) => size + 6),
    pattern: fc.constantFrom(...GOOD_PATTERNS),
    format: fc.constantFrom(
      'date-time',
      'date',
      'time',
      'duration',
      'email',
      'hostname',
      'ipv4',
      'ipv6',
      'uuid',
      'uri',
    ),
  },
  { requiredKeys: ['type'] },
)

const number = fc.record(
  {
    type: fc.constantFrom('number', 'integer', ['number', 'null']),
    minimum: bounded,
    exclusiveMinimum: bounded,
    maximum: bounded.map((bound) => bound + 30),
    exclusiveMaximum: bounded.map((bound) => bound + 30),
    multipleOf: fc.constantFrom(1, 2, 0.1, 0.5, 7),
  },
  { requiredKeys: ['type'] },
)

/** Schemas that `readSchema` accepts; most accept something, some contradict themselves. */
export const wellFormed: fc.Arbitrary<Record<string, unknown>> = fc
  .letrec((tie) => ({
    node: fc.oneof(
      { depthSize: 'small', maxDepth: 5 },
      text,
      number,
      fc.constantFrom<unknown>(true, {}, { type: 'boolean' }, { type: 'null' }, { type: ['string', 'null'] }),
      fc.constantFrom<unknown>({ $ref: '#' }, { $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }),
      fc.array(anyValue, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
      anyValue.map((value) => ({ const: value })),
      fc.record(
        { type: fc.constant('array'), items: tie('node'), minItems: fc.integer({ min: 0, max: 3 }) },
        { requiredKeys: ['type'] },
      ),
      fc.array(tie('node'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
      tie('object'),
    ),
    object: fc.record(
      {
        type: fc.constantFrom('object', ['object', 'null']),
        properties: object(fc.array(fc.tuple(name, tie('node')), { maxLength: 4 })),
        required: fc.array(name, { maxLength: 3 }),
        additionalProperties: fc.oneof(fc.boolean(), tie('node')),
        default: anyValue,
      },
      { requiredKeys: ['type', 'properties'] },
    ),
    root: fc
      .tuple(tie('object'), tie('node'), tie('node'))
      .map(([root, a, b]) => ({ ...(root as Record<string, unknown>), $defs: { a, b } })),
  }))
  .root.map((schema) => JSON.parse(JSON.stringify(schema)) as Record<string, unknown>)

/** A schema that means harm, and the answer that would bring it about. */
export interface Hostile {
  readonly family: string
  readonly schema: unknown
  readonly answer: unknown
}

/** `size` from 1 to 100 or so: how far each family is driven. */
export const HOSTILE_FAMILIES: readonly ((size: number) => Hostile)[] = [
  (size) => ({ family: 'branching $ref', schema: { $ref: '#/$defs/d0', $defs: branching(size) }, answer: 1 }),
  (size) => ({ family: 'branching $ref one step in', schema: branchingObjects(size), answer: chain(size) }),
  (size) => ({ family: 'circle of $ref', schema: circle(size), answer: null }),
  () => ({ family: '$ref to itself', schema: { $ref: '#' }, answer: {} }),
  (size) => ({
    family: 'recursion as deep as the answer',
    schema: { type: 'array', items: { $ref: '#' } },
    answer: nested(size * 100),
  }),
  (size) => ({ family: 'recursion with anyOf', schema: twice(), answer: nested(size) }),
  ...hostilePatterns(),
  (size) => ({
    family: 'required of the prototype',
    schema: { required: ['toString', '__proto__', 'constructor', 'valueOf'].slice(0, 1 + (size % 4)) },
    answer: {},
  }),
  (size) => ({
    family: 'names of the prototype',
    schema: JSON.parse('{"properties":{"__proto__":{"type":"integer"},"constructor":{"type":"string"}}}'),
    answer: JSON.parse(size % 2 === 0 ? '{"__proto__":{"polluted":1}}' : '{"constructor":{"prototype":{}}}'),
  }),
  (size) => ({
    family: 'huge enum of objects',
    schema: { items: { enum: Array.from({ length: size * 90 }, (_, at) => ({ a: { b: [at] } })) } },
    answer: Array.from({ length: size * 90 }, () => ({ a: { b: [-1] } })),
  }),
  (size) => ({
    family: 'huge enum of strings',
    schema: { enum: Array.from({ length: size * 1000 }, (_, at) => `value ${at}`) },
    answer: 'none',
  }),
  (size) => ({ family: 'deep schema', schema: deep(size * 20), answer: nested(size) }),
  (size) => ({ family: 'deep const', schema: { const: nested(size * 20) }, answer: nested(size * 20) }),
  (size) => ({
    family: 'many properties',
    schema: { additionalProperties: false, properties: many(size * 1500, { type: 'integer' }) },
    answer: many(size * 1500, 'x'),
  }),
  (size) => ({
    family: 'many branches',
    schema: { items: { anyOf: Array.from({ length: size * 90 }, (_, at) => ({ const: at })) } },
    answer: Array.from({ length: size * 90 }, () => 'x'),
  }),
  (size) => ({
    family: 'closed branches on a large object',
    schema: { anyOf: Array.from({ length: size * 50 }, () => ({ additionalProperties: { type: 'null' } })) },
    answer: many(size * 400, 1),
  }),
  (size) => ({ family: 'properties without end', schema: { properties: many(size * 2000, {}) }, answer: {} }),
  (size) => ({
    family: 'many unknown keywords',
    schema: many(size * 2000, 1),
    answer: null,
  }),
  (size) => ({
    family: 'many references',
    schema: {
      anyOf: Array.from({ length: size * 300 }, () => ({ $ref: '#/$defs/x' })),
      $defs: { x: { type: 'null' } },
    },
    answer: 1,
  }),
  (size) => ({ family: 'long pointer', schema: { $ref: `#${'/items'.repeat(size * 3000)}` }, answer: 1 }),
  (size) => ({ family: 'required mutual recursion', schema: mutual(2 + (size % 12), true), answer: {} }),
  (size) => ({ family: 'optional mutual recursion', schema: mutual(2 + (size % 12), false), answer: {} }),
  (size) => ({
    family: 'numbers of many digits',
    schema: { items: { multipleOf: 1.1e-300 } },
    answer: Array.from({ length: size * 300 }, (_, at) => 1.7e308 - at * 1e300),
  }),
  (size) => ({
    family: 'far bounds',
    schema: {
      properties: { a: { minLength: 9e15 }, b: { minItems: 9e15 }, c: { minimum: 1e308 } },
      required: ['a'],
    },
    answer: { a: 'é'.repeat(size * 1000) },
  }),
  (size) => ({
    family: 'wrong shapes',
    schema: { type: [[]], properties: [], required: {}, items: size, enum: {}, anyOf: {}, pattern: {} },
    answer: {},
  }),
]

function hostilePatterns(): ((size: number) => Hostile)[] {
  const patterns: [string, (size: number) => string][] = [
    ['(a+)+$', (size) => `${'a'.repeat(size * 3000)}b`],
    ['(a|a)*b', (size) => 'a'.repeat(size * 3000)],
    ['(a|b)*a(a|b){400}$', (size) => 'ab'.repeat(size * 1500)],
    ['(a?){500}a{500}$', (size) => 'a'.repeat(size * 1000)],
    ['(?:.*[ab]){300}x', (size) => 'ab'.repeat(size * 1000)],
    ['([\\p{L}\\P{L}\\p{Lu}\\p{Nd}\\p{Script=Han}]*){90}!$', (size) => 'é'.repeat(size * 1000)],
    ['[^\\p{L}\\p{N}\\p{Script=Han}\\p{Emoji}\\p{S}]{900}$', (size) => '\u0001'.repeat(size * 1000)],
    ['a{1000}{1000}', () => 'a'],
    ['(a{1000}){1000}', () => 'a'],
    ['((a{100}){100}){100}', () => 'a'],
    ['(){1000000000}', () => 'a'],
    ['(?=a)b', () => 'a'],
    ['(a)\\1', () => 'aa'],
    [`${'('.repeat(2000)}a${')'.repeat(2000)}`, () => 'a'],
    ['[a-z]{1,5000}'.repeat(1), (size) => 'a'.repeat(size * 3000)],
    [`^${'(a?|b?)'.repeat(600)}$`, (size) => 'ab'.repeat(size * 1000)],
  ]
  return patterns.map(([pattern, text]) => (size: number) => ({
    family: `pattern ${pattern.slice(0, 30)}`,
    schema: { type: ['string', 'array'], pattern, items: { pattern } },
    answer: size % 2 === 0 ? text(size) : [text(size / 2), text(size / 2)],
  }))
}

function branching(size: number): Record<string, unknown> {
  const definitions: Record<string, unknown> = {}
  for (let at = 0; at < size; at++) {
    const next = { $ref: `#/$defs/d${at + 1}` }
    definitions[`d${at}`] = { anyOf: [next, next] }
  }
  definitions[`d${size}`] = false
  return definitions
}

function branchingObjects(size: number): unknown {
  const definitions: Record<string, unknown> = { [`d${size}`]: false }
  for (let at = 0; at < size; at++) {
    const inside = { properties: { a: { $ref: `#/$defs/d${at + 1}` } }, required: ['a'] }
    definitions[`d${at}`] = { anyOf: [inside, inside, inside] }
  }
  return { $ref: '#/$defs/d0', $defs: definitions }
}

function chain(size: number): unknown {
  let value: unknown = 1
  for (let at = 0; at < size; at++) value = { a: value }
  return value
}

function circle(size: number): unknown {
  const definitions: Record<string, unknown> = {}
  for (let at = 0; at < size; at++) definitions[`d${at}`] = { $ref: `#/$defs/d${(at + 1) % size}` }
  return { anyOf: [{ type: 'string' }, { $ref: '#/$defs/d0' }], $defs: definitions }
}

/** Each level is tried by both branches, so the work doubles with each level of the answer. */
function twice(): unknown {
  return {
    anyOf: [
      { type: 'array', items: { $ref: '#' }, maxItems: 1 },
      { type: 'array', items: { $ref: '#' } },
      false,
    ],
  }
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let at = 0; at < depth; at++) value = [value]
  return value
}

function deep(depth: number): unknown {
  let schema: unknown = { type: 'integer' }
  for (let at = 0; at < depth; at++) schema = at % 2 === 0 ? { items: schema } : { anyOf: [schema] }
  return schema
}

function many(count: number, value: unknown): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`name${at}`, value]))
}

/** `count` kinds of object, each of which holds every kind. */
function mutual(count: number, isRequired: boolean): unknown {
  const names = Array.from({ length: count }, (_, at) => `d${at}`)
  const properties = Object.fromEntries(names.map((to) => [to, { $ref: `#/$defs/${to}` }]))
  const kind = {
    type: 'object',
    properties,
    ...(isRequired && { required: names }),
    additionalProperties: false,
  }
  return { $ref: '#/$defs/d0', $defs: Object.fromEntries(names.map((from) => [from, kind])) }
}
