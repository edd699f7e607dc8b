/** Generates random well-formed JSON Schemas and random JSON values. Some property names are dangerous. */
import fc from 'fast-check'
import { FORMAT_NAMES } from '../../json-schema/src/string-formats.ts'

/** Some of these names are dangerous in a language with prototypes. */
const NAMES = ['a', 'b', 'name', 'a b', '', 'é', '__proto__', 'constructor', 'toString', 'hasOwnProperty']

const name = fc.constantFrom(...NAMES)

/** `Object.fromEntries` creates the objects, so that `__proto__` is an ordinary key. */
function object<T>(entries: fc.Arbitrary<[string, T][]>): fc.Arbitrary<Record<string, T>> {
  return entries.map((pairs) => Object.fromEntries(pairs))
}

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
    format: fc.constantFrom(...FORMAT_NAMES),
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

/** `readSchema` accepts these schemas. Most of them accept some value. Some contradict themselves. */
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
