/**
 * Lets this checker and another implementation of JSON Schema judge the same generated schemas and answers. Both must agree.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerSchema, unregisterSchema, validate } from '@hyperjump/json-schema/draft-2020-12'
import '@hyperjump/json-schema/draft-07'
import fc from 'fast-check'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { LONG } from '../support/long-form.ts'

const NAMES = ['a', 'b', 'ab', 'c']
const name = fc.constantFrom(...NAMES)
const size = fc.integer({ min: 0, max: 3 })

const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', maxDepth: 3 },
    fc.constantFrom<unknown>(null, true, false, 0, 1, 2, 3, 1.5, '', 'a', 'b', 'ab', '😀'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value'), { maxKeys: 4 }),
  ),
})).value

type Keyword = fc.Arbitrary<readonly [keyword: string, value: unknown]>

function keyword<T>(names: string | readonly string[], values: fc.Arbitrary<T>): Keyword {
  return fc.tuple(fc.constantFrom(...(typeof names === 'string' ? [names] : names)), values)
}

/** Both drafts have these keywords. */
function commonKeywords(schema: fc.Arbitrary<unknown>): Keyword[] {
  const schemas = fc.array(schema, { minLength: 1, maxLength: 3 })
  const named = fc.dictionary(name, schema, { maxKeys: 3 })
  return [
    keyword(
      'type',
      fc.constantFrom('object', 'array', 'string', 'number', 'integer', ['null', 'boolean', 'string']),
    ),
    keyword(
      ['enum'],
      fc.uniqueArray(value, { minLength: 1, maxLength: 4, selector: (one) => JSON.stringify(one) }),
    ),
    keyword('const', value),
    keyword(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'], size),
    keyword('multipleOf', fc.constantFrom(1, 2, 0.5)),
    keyword(['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'], size),
    keyword('pattern', fc.constantFrom('^a', 'b$', '^.$')),
    keyword('required', fc.uniqueArray(name, { maxLength: 2 })),
    keyword('properties', named),
    keyword('patternProperties', fc.dictionary(fc.constantFrom('^a', 'b$'), schema, { maxKeys: 2 })),
    keyword(['additionalProperties', 'propertyNames', 'not', 'contains', 'if', 'then', 'else'], schema),
    keyword(['allOf', 'anyOf', 'oneOf'], schemas),
    keyword('uniqueItems', fc.boolean()),
  ]
}

const ONLY_2020 = (schema: fc.Arbitrary<unknown>): Keyword[] => [
  keyword('items', schema),
  keyword('prefixItems', fc.array(schema, { minLength: 1, maxLength: 3 })),
  keyword(['minContains', 'maxContains'], size),
  keyword('dependentRequired', fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), { maxKeys: 2 })),
  keyword('dependentSchemas', fc.dictionary(name, schema, { maxKeys: 2 })),
]

const ONLY_07 = (schema: fc.Arbitrary<unknown>): Keyword[] => [
  keyword('items', fc.oneof(schema, fc.array(schema, { minLength: 1, maxLength: 3 }))),
  keyword('additionalItems', schema),
  keyword(
    'dependencies',
    fc.dictionary(name, fc.oneof(schema, fc.uniqueArray(name, { maxLength: 2 })), { maxKeys: 2 }),
  ),
]

interface Draft {
  readonly uri: string
  readonly definitions: '$defs' | 'definitions'
  readonly more: (schema: fc.Arbitrary<unknown>) => Keyword[]
}

const DRAFTS: readonly Draft[] = [
  { uri: 'https://json-schema.org/draft/2020-12/schema', definitions: '$defs', more: ONLY_2020 },
  { uri: 'http://json-schema.org/draft-07/schema#', definitions: 'definitions', more: ONLY_07 },
]

/** Keywords are combined at random, so most of these schemas are unlike those that people write. */
function schemasOf({ uri, definitions, more }: Draft): fc.Arbitrary<Record<string, unknown>> {
  const { schema, object } = fc.letrec<{ schema: unknown; object: Record<string, unknown> }>((tie) => ({
    schema: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      fc.constantFrom<unknown>(true, false, {}, { type: 'string' }, { $ref: `#/${definitions}/d` }),
      tie('object'),
    ),
    object: fc
      .array(fc.oneof(...commonKeywords(tie('schema')), ...more(tie('schema'))), {
        minLength: 1,
        maxLength: 4,
      })
      .map((keywords) => Object.fromEntries(keywords)),
  }))
  return fc.tuple(object, schema).map(([root, d]) => ({ $schema: uri, ...root, [definitions]: { d } }))
}

const ADDRESS = 'https://example.com/schema'

async function judgeThere(schema: Record<string, unknown>, answers: readonly unknown[]): Promise<boolean[]> {
  registerSchema(schema as Parameters<typeof registerSchema>[0], ADDRESS)
  try {
    const isValid = await validate(ADDRESS)
    return answers.map((answer) => isValid(answer as Parameters<typeof isValid>[0]).valid)
  } finally {
    unregisterSchema(ADDRESS)
  }
}

const RUNS = LONG ? 20_000 : 1_000

for (const draft of DRAFTS) {
  test(`${RUNS} schemas of ${draft.uri}: every verdict is that of another implementation`, async (t) => {
    const seen = { schemas: 0, right: 0, wrong: 0 }
    const property = fc.asyncProperty(
      schemasOf(draft),
      fc.array(value, { minLength: 5, maxLength: 10 }),
      async (generated, answers) => {
        const schema = JSON.parse(JSON.stringify(generated))
        const read = readSchema(schema)
        if (!read.ok) {
          // The checker rejects no generated schema except those with circular references.
          assert.match(read.rule, /refers to itself/)
          return
        }
        const there = await judgeThere(schema, answers)
        const here = answers.map((answer) => checkAnswer(read.schema, answer).ok)
        assert.deepEqual(here, there, JSON.stringify(answers))
        seen.schemas++
        for (const verdict of here) seen[verdict ? 'right' : 'wrong']++
      },
    )
    await fc.assert(property, { numRuns: RUNS, seed: 7 })
    t.diagnostic(JSON.stringify(seen))
    assert.ok(seen.schemas > 800 && seen.right > 1_000 && seen.wrong > 1_000, JSON.stringify(seen))
  })
}
