/**
 * JSON Schemas that try to exhaust the CPU, the stack or the memory, each with an answer. Each family is a different attack.
 */

/** A hostile schema, and the answer that triggers the attack. */
interface Hostile {
  readonly family: string
  readonly schema: unknown
  readonly answer: unknown
}

/** `size` is the strength of the attack, from 1 to about 100. */
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
  (size) => ({
    family: 'patterns of the largest size',
    schema: { allOf: Array.from({ length: 5 }, (_, at) => ({ pattern: `x{${size * 90 + at}}y` })) },
    answer: 'a',
  }),
  (size) => ({
    family: 'formats on encoded labels',
    schema: { allOf: Array.from({ length: size * 28 }, () => ({ format: 'hostname' })) },
    answer: Array(31).fill('xn--tda').join('.'),
  }),
  (size) => ({
    family: 'references by a long address',
    schema: {
      $id: `http://example.com/${'a/'.repeat(900)}x`,
      anyOf: Array.from({ length: size * 50 }, () => ({ $ref: 'x#/$defs/x' })),
      $defs: { x: { type: 'null' } },
    },
    answer: 1,
  }),
  (size) => ({
    family: 'sets of sets',
    schema: { $defs: { set: { uniqueItems: true, items: { $ref: '#/$defs/set' } } }, $ref: '#/$defs/set' },
    answer: Array.from({ length: size * 20 }, (_, at) => [[at], nested(size % 50), { a: at, b: [at, 'x'] }]),
  }),
  (size) => ({
    family: 'patterns of many properties',
    schema: {
      patternProperties: Object.fromEntries(
        Array.from({ length: size * 20 }, (_, at) => [`(a|b)*${at}$`, false]),
      ),
      propertyNames: { pattern: '^(?:[a-z]|name)*[0-9]*$' },
    },
    answer: many(size * 200, 1),
  }),
  (size) => ({
    family: 'exactly one of many',
    schema: { items: { oneOf: Array.from({ length: size * 90 }, () => ({ not: { type: 'string' } })) } },
    answer: Array.from({ length: size * 90 }, () => 'x'),
  }),
  (size) => ({
    family: 'conditions that multiply',
    schema: conditions(size),
    answer: 1,
  }),
  (size) => ({
    family: 'contains of contains',
    schema: { $defs: { c: { minContains: 2, contains: { $ref: '#/$defs/c' } } }, $ref: '#/$defs/c' },
    answer: Array.from({ length: size * 100 }, () => [1, [2, [3]]]),
  }),
  (size) => ({
    family: 'dependents on all properties',
    schema: {
      dependentRequired: Object.fromEntries(
        Object.keys(many(size, 1)).map((name) => [name, Object.keys(many(150, 1))]),
      ),
      dependentSchemas: many(size * 10, { minProperties: 1e9 }),
    },
    answer: many(size * 20, 1),
  }),
  (size) => ({
    family: 'many misspelt keywords',
    schema: Object.fromEntries(
      Array.from({ length: size * 150 }, (_, at) => [`addi${at}onalPropertie${at}s`, at]),
    ),
    answer: 1,
  }),
  (size) => ({
    family: 'references through unknown keywords',
    schema: {
      anyOf: Array.from({ length: size * 100 }, (_, at) => ({ $ref: `#/components/c${at}` })),
      components: many(size * 100, {}),
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

/** Both branches check each level, so the work doubles with each level of the answer. */
function twice(): unknown {
  return {
    anyOf: [
      { type: 'array', items: { $ref: '#' }, maxItems: 1 },
      { type: 'array', items: { $ref: '#' } },
      false,
    ],
  }
}

/** Each level is checked twice: for the condition and for the consequence. */
function conditions(size: number): Record<string, unknown> {
  const definitions: Record<string, unknown> = { [`d${size}`]: {} }
  for (let at = 0; at < size; at++) {
    const next = { $ref: `#/$defs/d${at + 1}` }
    definitions[`d${at}`] = Object.fromEntries([
      ['if', next],
      ['then', next],
    ])
  }
  return { $ref: '#/$defs/d0', $defs: definitions }
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

/** Returns `count` kinds of objects, each of which contains all kinds. */
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
