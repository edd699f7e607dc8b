import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAnswer } from './check-answer.ts'
import { MAX_ERRORS, StepBudget } from './limits.ts'
import { readSchema } from './read-schema.ts'

function errorsOf(schema: unknown, answer: unknown, budget?: StepBudget): readonly string[] {
  const read = readSchema(schema)
  assert.ok(read.ok, `${JSON.stringify(schema)}: ${read.ok || `${read.path} ${read.rule}`}`)
  const checked = checkAnswer(read.schema, answer, budget)
  if (checked.ok) return []
  return checked.kind === 'wrong' ? checked.errors : [checked.reason]
}

/** `errors` lists all errors of the answer. A right answer has none. */
type Case = [schema: unknown, answer: unknown, ...errors: string[]]

function table(name: string, cases: Case[]): void {
  test(name, () => {
    for (const [schema, answer, ...errors] of cases) {
      assert.deepEqual(
        errorsOf(schema, answer),
        errors,
        `${JSON.stringify(schema)} on ${JSON.stringify(answer)}`,
      )
    }
  })
}

table('type', [
  [{ type: 'integer' }, 1],
  [{ type: 'integer' }, JSON.parse('1.0')],
  [{ type: 'integer' }, 1.5, '(answer): must be an integer'],
  [{ type: 'number' }, 1],
  [{ type: 'number' }, '1', '(answer): must be a number'],
  [{ type: 'string' }, null, '(answer): must be a string'],
  [{ type: 'object' }, [], '(answer): must be an object'],
  [{ type: 'array' }, {}, '(answer): must be an array'],
  [{ type: 'object' }, null, '(answer): must be an object'],
  [{ type: 'boolean' }, 0, '(answer): must be a boolean'],
  [{ type: ['string', 'null'] }, null],
  [{ type: ['string', 'null'] }, 1, '(answer): must be null or a string'],
  [{}, undefined],
  [{ type: 'object' }, undefined, '(answer): must be an object'],
])

table('properties, required and additionalProperties look at own properties only', [
  [{ properties: { age: { type: 'integer' } } }, { age: 'x' }, 'age: must be an integer'],
  [{ properties: { age: { type: 'integer' } } }, { other: 'x' }],
  [{ properties: { age: { type: 'integer' } } }, 'no object'],
  [{ required: ['a', 'b'] }, { a: undefined, b: 1 }],
  [{ required: ['a', 'b'] }, {}, 'a: is required', 'b: is required'],
  [{ required: ['toString'] }, {}, 'toString: is required'],
  [{ required: ['__proto__'] }, {}, '__proto__: is required'],
  [{ required: ['__proto__'] }, JSON.parse('{"__proto__":1}')],
  [{ properties: { toString: { type: 'integer' } } }, {}],
  [
    JSON.parse('{"properties":{"__proto__":{"type":"integer"}}}'),
    JSON.parse('{"__proto__":"x"}'),
    '__proto__: must be an integer',
  ],
  [JSON.parse('{"properties":{"__proto__":{"type":"integer"}},"additionalProperties":false}'), {}],
  [
    { additionalProperties: false },
    { constructor: 1 },
    'constructor: is not allowed: the schema has no such property',
  ],
  [{ additionalProperties: false, properties: { a: {} } }, { a: 1 }],
  [
    { additionalProperties: { type: 'string' }, properties: { a: {} } },
    { a: 1, b: 'x' },
  ],
  [{ additionalProperties: { type: 'string' } }, { b: 1 }, 'b: must be a string'],
  [{ additionalProperties: true }, { b: 1 }],
  [{ properties: { a: false } }, { a: 1 }, 'a: is not allowed: the schema is false'],
  [{ properties: { a: true } }, { a: 1 }],
])

table('items, minItems and maxItems', [
  [
    { items: { type: 'string' } },
    ['a', 1, 'b', 2],
    '(answer)[1]: must be a string',
    '(answer)[3]: must be a string',
  ],
  [{ minItems: 2 }, [1], '(answer): must have at least 2 items'],
  [{ maxItems: 1 }, [1, 2], '(answer): must have at most 1 item'],
  [{ minItems: 1, maxItems: 1 }, [1]],
  [{ minItems: 1 }, {}],
])

table('enum and const compare deeply', [
  [{ enum: [1, 'a', null] }, null],
  [{ enum: [1, 'a', null] }, 1.0],
  [{ enum: [1, 'a', null] }, '1', '(answer): must be one of 1, "a", null'],
  [{ enum: [0] }, -0],
  [{ enum: [] }, 0, '(answer): is not allowed: the enum of the schema is empty'],
  [{ enum: [0] }, false, '(answer): must be one of 0'],
  [{ enum: Array.from({ length: 20 }, (_, at) => at) }, 19],
  [
    { enum: Array.from({ length: 12 }, (_, at) => at) },
    12,
    '(answer): must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more',
  ],
  [{ const: { a: [1, { b: 2 }], c: null } }, { c: null, a: [1, { b: 2 }] }],
  [{ const: { a: [1] } }, { a: [2] }, '(answer): must be the object of the schema'],
  [{ const: { a: 1 } }, { a: 1, b: 2 }, '(answer): must be the object of the schema'],
  [{ const: [1] }, [1, 2], '(answer): must be the array of the schema'],
  [{ const: JSON.parse('{"__proto__":{}}') }, { b: 1 }, '(answer): must be the object of the schema'],
  [{ const: {} }, [], '(answer): must be the object of the schema'],
  [{ const: [] }, {}, '(answer): must be the array of the schema'],
  [{ const: { toString: 1 } }, { valueOf: 1 }, '(answer): must be the object of the schema'],
  [{ const: JSON.parse('{"__proto__":1}') }, {}, '(answer): must be the object of the schema'],
  [{ const: 1, enum: [1, 2] }, 2, '(answer): must be 1'],
])

table('number bounds and multipleOf', [
  [{ minimum: 1 }, 1],
  [{ minimum: 1 }, 0.9, '(answer): must be at least 1'],
  [{ maximum: 1 }, 1],
  [{ maximum: 1 }, 1.1, '(answer): must be at most 1'],
  [{ exclusiveMinimum: 1 }, 1, '(answer): must be greater than 1'],
  [{ exclusiveMaximum: 1 }, 1, '(answer): must be less than 1'],
  [{ exclusiveMinimum: 0, exclusiveMaximum: 1 }, 0.5],
  [{ minimum: 1 }, '0'],
  [{ multipleOf: 2 }, 4],
  [{ multipleOf: 2 }, 5, '(answer): must be a multiple of 2'],
  [{ multipleOf: 0.1 }, 0.3],
  [{ multipleOf: 0.01 }, 19.99],
  [{ multipleOf: 0.1 }, 0.35, '(answer): must be a multiple of 0.1'],
  [{ multipleOf: 1.5 }, -4.5],
  [{ multipleOf: 0.123456789 }, 1e308, '(answer): must be a multiple of 0.123456789'],
  [{ multipleOf: 1e-300 }, 1e300],
  [{ minimum: 1, maximum: 1e308 }, JSON.parse('1e400'), '(answer): must be at most 1e+308'],
  [{ minimum: 1 }, JSON.parse('1e400')],
  [{ multipleOf: 1 }, JSON.parse('1e400'), '(answer): must be a multiple of 1'],
])

table('lengths are counted in code points', [
  [{ minLength: 2 }, '😀😀'],
  [{ minLength: 2 }, '😀', '(answer): must have at least 2 characters'],
  [{ maxLength: 2 }, '😀😀'],
  [{ maxLength: 1 }, '😀a', '(answer): must have at most 1 characters'],
  [{ minLength: 3 }, '\ud83d\ud83d\ude00', '(answer): must have at least 3 characters'],
  [{ minLength: 1 }, 5],
])

table('pattern and format', [
  [{ pattern: 'b' }, 'abc'],
  [{ pattern: '^b' }, 'abc', '(answer): must match the pattern ^b'],
  [{ pattern: '^b' }, 1],
  [{ format: 'date' }, '2026-01-31'],
  [{ format: 'date' }, '2026-02-31', '(answer): must be a date'],
  [{ format: 'date' }, 1],
])

const TREE = {
  type: 'object',
  properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
  required: ['value'],
}

table('$ref applies beside the other keywords, and may recurse', [
  [{ $ref: '#/$defs/a', $defs: { a: { type: 'string' } } }, 1, '(answer): must be a string'],
  [
    { $ref: '#/$defs/a', $defs: { a: { type: 'string' } }, minLength: 2 },
    'a',
    '(answer): must have at least 2 characters',
  ],
  [TREE, { value: 1, next: { value: 2, next: null } }],
  [TREE, { value: 1, next: { value: 'x', next: null } }, 'next.value: must be an integer'],
  [
    TREE,
    { value: 1, next: { next: { value: 1, next: 5 } } },
    'next.value: is required',
    'next.next.next: does not match any of the 2 schemas in anyOf',
  ],
])

const TAGGED = {
  anyOf: [
    {
      type: 'object',
      properties: { kind: { const: 'a' }, size: { type: 'integer' } },
      required: ['kind', 'size'],
    },
    {
      type: 'object',
      properties: { kind: { const: 'b' }, name: { type: 'string' } },
      required: ['kind', 'name'],
    },
  ],
}

table('anyOf reports the errors of the branch that was meant', [
  [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, null],
  [
    { anyOf: [{ type: 'string', minLength: 3 }, { type: 'null' }] },
    'ab',
    '(answer): must have at least 3 characters',
  ],
  [
    { anyOf: [{ type: 'string' }, { type: 'null' }] },
    1,
    '(answer): does not match any of the 2 schemas in anyOf',
  ],
  [TAGGED, { kind: 'b', name: 'x' }],
  [TAGGED, { kind: 'b', name: 1 }, 'name: must be a string'],
  [TAGGED, { kind: 'c' }, '(answer): does not match any of the 2 schemas in anyOf'],
  [{ anyOf: [{}], type: 'string' }, 1, '(answer): must be a string'],
])

table('a path names each step, and quotes what is no identifier', [
  [
    { properties: { a: { items: { properties: { 'b c': { type: 'null' } } } } } },
    { a: [{ 'b c': 1 }] },
    'a[0]["b c"]: must be null',
  ],
  [{ properties: { 'b c': { type: 'null' } } }, { 'b c': 1 }, '(answer)["b c"]: must be null'],
])

test('no more than 20 errors are reported', () => {
  assert.equal(MAX_ERRORS, 20)
  const answer = Array.from({ length: 100 }, () => 'x')
  assert.equal(errorsOf({ items: { type: 'integer' } }, answer).length, MAX_ERRORS)
  assert.equal(errorsOf({ required: answer.map((_, at) => `p${at}`) }, {}).length, MAX_ERRORS)
  const twoEach = { required: ['b'], properties: { a: { items: { const: 1, enum: [2] } } } }
  assert.equal(errorsOf(twoEach, { a: answer }).length, MAX_ERRORS)
  const closed = errorsOf(
    { additionalProperties: false },
    Object.fromEntries(answer.map((_, at) => [`p${at}`, 1])),
  )
  assert.equal(closed.length, MAX_ERRORS)
})

test('a long key or path is cut in the error', () => {
  const [error = ''] = errorsOf({ additionalProperties: { type: 'null' } }, { ['k'.repeat(1e6)]: 1 })
  assert.ok(error.length < 200)
  let deep: unknown = 1
  for (let at = 0; at < 100; at++) deep = { ['key_'.repeat(10)]: deep }
  const [cut = ''] = errorsOf({ type: ['object', 'null'], additionalProperties: { $ref: '#' } }, deep)
  assert.ok(cut.length < 500 && cut.endsWith('must be null or an object'))
})

test('when the steps run out, it is unknown whether the answer is valid, and the reason explains it', () => {
  const budget = new StepBudget(1_000)
  const errors = errorsOf({ items: { type: 'integer' } }, Array(2_000).fill(1), budget)
  assert.deepEqual(errors, ['checking the answer against the schema takes more than 1000 steps'])
  assert.equal(budget.spent, 1_000)
})

test('an answer that nests deeper than the checker is not checked, and no crash', () => {
  let deep: unknown = []
  for (let at = 0; at < 100_000; at++) deep = [deep]
  assert.deepEqual(errorsOf({ items: { $ref: '#' } }, deep), [
    'checking the answer nests more than 1000 schemas',
  ])
  assert.deepEqual(errorsOf({ anyOf: [{ type: 'null' }, { items: { $ref: '#' } }] }, deep).length, 1)
})

test('a pattern is not compiled if that takes more steps than are left', () => {
  const schema = { type: 'string', pattern: `^(?:ab){500}$` }
  const few = errorsOf(schema, 'x', new StepBudget(500))
  assert.deepEqual(few, ['checking the answer against the schema takes more than 500 steps'])
  assert.match(errorsOf(schema, 'x', new StepBudget(10_000)).join(), /must match the pattern/)
})

test('a schema may be used again and again, and gives the same answer and steps', () => {
  const read = readSchema({ properties: { a: { pattern: '^(a|b)*c$' } }, additionalProperties: false })
  assert.ok(read.ok)
  const spent = [1, 2, 3].map(() => {
    const budget = new StepBudget(10_000)
    assert.ok(checkAnswer(read.schema, { a: 'ababc' }, budget).ok)
    return budget.spent
  })
  assert.equal(spent[1], spent[2])
})
