/**
 * Makes JSON Schemas that try to exhaust the CPU, the stack or the memory, each with an answer. Each family is a different
 * attack.
 */

interface Hostile {
  readonly family: string
  readonly schema: unknown
  readonly answer: unknown
}

function times<T>(count: number, make: (at: number) => T): T[] {
  return Array.from({ length: count }, (_, at) => make(at))
}

const ATTACKS: Readonly<Record<string, (size: number) => readonly [schema: unknown, answer: unknown]>> = {
  'branching $ref': (size) => [{ $ref: '#/$defs/d0', $defs: branching(size) }, 1],
  'branching $ref one step in': (size) => [branchingObjects(size), chain(size)],
  'circle of $ref': (size) => [circle(size), null],
  '$ref to itself': () => [{ $ref: '#' }, {}],
  'recursion as deep as the answer': (size) => [{ type: 'array', items: { $ref: '#' } }, nested(size * 100)],
  'recursion with anyOf': (size) => [twice(), nested(size)],
  ...hostilePatterns(),
  'required of the prototype': (size) => [
    { required: ['toString', '__proto__', 'constructor', 'valueOf'].slice(0, 1 + (size % 4)) },
    {},
  ],
  'names of the prototype': (size) => [
    JSON.parse('{"properties":{"__proto__":{"type":"integer"},"constructor":{"type":"string"}}}'),
    JSON.parse(size % 2 === 0 ? '{"__proto__":{"polluted":1}}' : '{"constructor":{"prototype":{}}}'),
  ],
  'huge enum of objects': (size) => [
    { items: { enum: times(size * 90, (at) => ({ a: { b: [at] } })) } },
    times(size * 90, () => ({ a: { b: [-1] } })),
  ],
  'huge enum of strings': (size) => [{ enum: times(size * 1000, (at) => `value ${at}`) }, 'none'],
  'deep schema': (size) => [deep(size * 20), nested(size)],
  'deep const': (size) => [{ const: nested(size * 20) }, nested(size * 20)],
  'many properties': (size) => [
    { additionalProperties: false, properties: many(size * 1500, { type: 'integer' }) },
    many(size * 1500, 'x'),
  ],
  'many branches': (size) => [
    { items: { anyOf: times(size * 90, (at) => ({ const: at })) } },
    times(size * 90, () => 'x'),
  ],
  'closed branches on a large object': (size) => [
    { anyOf: times(size * 50, () => ({ additionalProperties: { type: 'null' } })) },
    many(size * 400, 1),
  ],
  'properties without end': (size) => [{ properties: many(size * 2000, {}) }, {}],
  'many unknown keywords': (size) => [many(size * 2000, 1), null],
  'many references': (size) => [
    {
      anyOf: times(size * 300, () => ({ $ref: '#/$defs/x' })),
      $defs: { x: { type: 'null' } },
    },
    1,
  ],
  'patterns of the largest size': (size) => [
    { allOf: times(5, (at) => ({ pattern: `x{${size * 90 + at}}y` })) },
    'a',
  ],
  'formats on encoded labels': (size) => [
    { allOf: times(size * 28, () => ({ format: 'hostname' })) },
    Array(31).fill('xn--tda').join('.'),
  ],
  'references by a long address': (size) => [
    {
      $id: `http://example.com/${'a/'.repeat(900)}x`,
      anyOf: times(size * 50, () => ({ $ref: 'x#/$defs/x' })),
      $defs: { x: { type: 'null' } },
    },
    1,
  ],
  'sets of sets': (size) => [
    { $defs: { set: { uniqueItems: true, items: { $ref: '#/$defs/set' } } }, $ref: '#/$defs/set' },
    times(size * 20, (at) => [[at], nested(size % 50), { a: at, b: [at, 'x'] }]),
  ],
  'patterns of many properties': (size) => [
    {
      patternProperties: Object.fromEntries(times(size * 20, (at) => [`(a|b)*${at}$`, false])),
      propertyNames: { pattern: '^(?:[a-z]|name)*[0-9]*$' },
    },
    many(size * 200, 1),
  ],
  'exactly one of many': (size) => [
    { items: { oneOf: times(size * 90, () => ({ not: { type: 'string' } })) } },
    times(size * 90, () => 'x'),
  ],
  'conditions that multiply': (size) => [conditions(size), 1],
  'contains of contains': (size) => [
    { $defs: { c: { minContains: 2, contains: { $ref: '#/$defs/c' } } }, $ref: '#/$defs/c' },
    times(size * 100, () => [1, [2, [3]]]),
  ],
  'dependents on all properties': (size) => [
    {
      dependentRequired: Object.fromEntries(
        Object.keys(many(size, 1)).map((name) => [name, Object.keys(many(150, 1))]),
      ),
      dependentSchemas: many(size * 10, { minProperties: 1e9 }),
    },
    many(size * 20, 1),
  ],
  'many misspelt keywords': (size) => [
    Object.fromEntries(times(size * 150, (at) => [`addi${at}onalPropertie${at}s`, at])),
    1,
  ],
  'references through unknown keywords': (size) => [
    {
      anyOf: times(size * 100, (at) => ({ $ref: `#/components/c${at}` })),
      components: many(size * 100, {}),
    },
    1,
  ],
  'long pointer': (size) => [{ $ref: `#${'/items'.repeat(size * 3000)}` }, 1],
  'required mutual recursion': (size) => [mutual(2 + (size % 12), true), {}],
  'optional mutual recursion': (size) => [mutual(2 + (size % 12), false), {}],
  'numbers of many digits': (size) => [
    { items: { multipleOf: 1.1e-300 } },
    times(size * 300, (at) => 1.7e308 - at * 1e300),
  ],
  'far bounds': (size) => [
    {
      properties: { a: { minLength: 9e15 }, b: { minItems: 9e15 }, c: { minimum: 1e308 } },
      required: ['a'],
    },
    { a: 'é'.repeat(size * 1000) },
  ],
  'wrong shapes': (size) => [
    { type: [[]], properties: [], required: {}, items: size, enum: {}, anyOf: {}, pattern: {} },
    {},
  ],
}

/** `size` is the strength of the attack, from 1 to about 100. */
export const HOSTILE_FAMILIES: readonly ((size: number) => Hostile)[] = Object.entries(ATTACKS).map(
  ([family, make]) =>
    (size) => {
      const [schema, answer] = make(size)
      return { family, schema, answer }
    },
)

function hostilePatterns(): typeof ATTACKS {
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
  const attacks = patterns.map(([pattern, text]) => {
    const schema = { type: ['string', 'array'], pattern, items: { pattern } }
    const make = (size: number) =>
      [schema, size % 2 === 0 ? text(size) : [text(size / 2), text(size / 2)]] as const
    return [`pattern ${pattern.slice(0, 30)}`, make] as const
  })
  return Object.fromEntries(attacks)
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
  return Object.fromEntries(times(count, (at) => [`name${at}`, value]))
}

function mutual(count: number, isRequired: boolean): unknown {
  const names = times(count, (at) => `d${at}`)
  const properties = Object.fromEntries(names.map((to) => [to, { $ref: `#/$defs/${to}` }]))
  const kind = {
    type: 'object',
    properties,
    ...(isRequired && { required: names }),
    additionalProperties: false,
  }
  return { $ref: '#/$defs/d0', $defs: Object.fromEntries(names.map((from) => [from, kind])) }
}
