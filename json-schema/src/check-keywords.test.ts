/** Tests answers against the keywords that combine schemas, and those about property names, tuples and sets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAnswer } from './check-answer.ts'
import { checkSteps, StepBudget } from './limits.ts'
import { readSchema } from './read-schema.ts'

/** `errors` lists all errors of the answer. A right answer has none. */
type Case = [schema: unknown, answer: unknown, ...errors: string[]]

function errorsOf(schema: unknown, answer: unknown, steps: number): readonly string[] {
  const read = readSchema(schema)
  assert.ok(read.ok, `${JSON.stringify(schema)}: ${read.ok || `${read.path} ${read.rule}`}`)
  const checked = checkAnswer(read.schema, answer, new StepBudget(steps))
  if (checked.ok) return []
  return checked.kind === 'wrong' ? checked.errors : [checked.reason]
}

function table(name: string, cases: Case[]): void {
  test(name, () => {
    for (const [schema, answer, ...errors] of cases) {
      const text = `${JSON.stringify(schema)} on ${JSON.stringify(answer)}`
      assert.deepEqual(errorsOf(schema, answer, 10_000), errors, text)
    }
  })
}

const CIRCLE = { properties: { kind: { const: 'circle' }, r: { type: 'number' } }, required: ['kind', 'r'] }
const SQUARE = {
  properties: { kind: { const: 'square' }, side: { type: 'number' } },
  required: ['kind', 'side'],
}

table('oneOf accepts what exactly one branch accepts', [
  [{ oneOf: [{ type: 'string' }, { type: 'number' }] }, 'a'],
  [
    { oneOf: [{ type: 'string' }, { type: 'number' }] },
    null,
    '(answer): does not match any of the 2 schemas in oneOf',
  ],
  [
    { oneOf: [{ type: 'number' }, false, { type: 'integer' }] },
    1,
    '(answer): must match exactly one schema in oneOf, but matches those at 0 and 2',
  ],
  [{ oneOf: [CIRCLE, SQUARE] }, { kind: 'square', side: 1 }],
  [{ oneOf: [CIRCLE, SQUARE] }, { kind: 'square', side: 'x' }, 'side: must be a number'],
  [{ oneOf: [CIRCLE, SQUARE] }, { kind: 'oval' }, '(answer): does not match any of the 2 schemas in oneOf'],
])

table('lists of no schema, as generators write them', [
  [{ allOf: [], prefixItems: [] }, [1]],
  [{ anyOf: [] }, 1, '(answer): is not allowed: the anyOf of the schema is empty'],
  [{ oneOf: [] }, 1, '(answer): is not allowed: the oneOf of the schema is empty'],
  [
    { prefixItems: [], items: false },
    [1],
    '(answer)[0]: is not allowed: the schema does not allow an item here',
  ],
])

const CYCLIC = {
  $defs: { Node: { properties: { next: { $ref: 'Node' }, size: { type: 'number' } }, $id: 'Node' } },
  $ref: 'Node',
}

table('a definition that is referred to by the name in its $id', [
  [CYCLIC, { next: { next: { size: 1 } } }],
  [CYCLIC, { next: { next: { size: 'x' } } }, 'next.next.size: must be a number'],
])

table('allOf, not and if', [
  [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, 2],
  [
    { allOf: [{ minimum: 3 }, { multipleOf: 2 }] },
    1,
    '(answer): must be at least 3',
    '(answer): must be a multiple of 2',
  ],
  [{ allOf: [{ $ref: '#/$defs/a' }], $defs: { a: { type: 'string' } } }, 1, '(answer): must be a string'],
  [{ anyOf: [{ allOf: [CIRCLE] }, { allOf: [SQUARE] }] }, { kind: 'circle' }, 'r: is required'],
  [{ not: { type: 'string' } }, 1],
  [{ not: { type: 'string' } }, 'a', '(answer): must not match the schema in not'],
  [JSON.parse('{"if":{"minimum":10},"then":{"multipleOf":10},"else":{"multipleOf":2}}'), 20],
  [JSON.parse('{"if":{"minimum":10},"then":{"multipleOf":10}}'), 15, '(answer): must be a multiple of 10'],
  [JSON.parse('{"if":{"minimum":10},"else":{"multipleOf":2}}'), 3, '(answer): must be a multiple of 2'],
  [JSON.parse('{"if":{"minimum":10}}'), 3],
  [JSON.parse('{"then":{"multipleOf":2}}'), 3],
])

table('nullable accepts null beside any keyword', [
  [{ type: 'string', nullable: true }, null],
  [{ enum: ['a'], nullable: true }, null],
  [{ allOf: [{ type: 'object' }], nullable: true }, null],
  [{ type: 'string', nullable: false }, null, '(answer): must be a string'],
  [{ type: 'string', nullable: true }, 1, '(answer): must be a string'],
])

table('draft-04: exclusive bounds are flags', [
  [{ minimum: 1, exclusiveMinimum: true }, 1, '(answer): must be greater than 1'],
  [{ exclusiveMaximum: true, maximum: 1 }, 1, '(answer): must be less than 1'],
  [{ minimum: 1, exclusiveMinimum: false }, 1],
])

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#'

table('up to draft-07, keywords beside $ref have no effect', [
  [{ $schema: DRAFT_7, definitions: { a: { type: 'number' } }, $ref: '#/definitions/a', minimum: 5 }, 1],
  [
    { definitions: { a: { type: 'number' } }, $ref: '#/definitions/a', minimum: 5 },
    1,
    '(answer): must be at least 5',
  ],
])

table('tuples', [
  [{ prefixItems: [{ type: 'string' }, { type: 'number' }], items: false }, ['a', 1]],
  [{ prefixItems: [{ type: 'string' }, { type: 'number' }], items: false }, ['a']],
  [
    { prefixItems: [{ type: 'string' }], items: false },
    ['a', 1],
    '(answer)[1]: is not allowed: the schema does not allow an item here',
  ],
  [{ prefixItems: [{ type: 'string' }] }, ['a', 1]],
  [
    { prefixItems: [{ type: 'string' }], items: { type: 'number' } },
    [1, 'a'],
    '(answer)[0]: must be a string',
    '(answer)[1]: must be a number',
  ],
  [
    { items: [{ type: 'string' }], additionalItems: { type: 'number' } },
    ['a', 'b'],
    '(answer)[1]: must be a number',
  ],
  [{ items: { type: 'string' }, additionalItems: false }, ['a', 'b']],
])

table('contains counts the items that fit', [
  [{ contains: { const: 1 } }, [2, 1]],
  [{ contains: { const: 1 } }, [], '(answer): must have at least 1 item that fits the schema in contains'],
  [{ contains: { const: 1 }, minContains: 0 }, []],
  [
    { contains: { const: 1 }, minContains: 2 },
    [1, 2],
    '(answer): must have at least 2 items that fit the schema in contains',
  ],
  [
    { contains: { const: 1 }, maxContains: 1 },
    [1, 1],
    '(answer): must have at most 1 item that fits the schema in contains',
  ],
  [{ contains: { const: 1 }, maxContains: 1 }, [1, 2]],
])

table('uniqueItems compares deeply', [
  [
    { uniqueItems: true },
    [1, '1', true, 'true', null, 'null', [1], ['1'], { a: 1 }, { a: '1' }, [], {}, 0, false],
  ],
  [
    { uniqueItems: true },
    [
      { a: 1, b: [2] },
      { b: [2], a: 1 },
    ],
    '(answer): must not have equal items, but those at 0 and 1 are equal',
  ],
  [{ uniqueItems: true }, [0, 1, -0], '(answer): must not have equal items, but those at 0 and 2 are equal'],
  [{ uniqueItems: true }, [[0], [-0]], '(answer): must not have equal items, but those at 0 and 1 are equal'],
  [{ uniqueItems: true }, [{ 'a:1,b': 2 }, { a: 1, b: 2 }, { a: '1,b:2' }]],
  [{ uniqueItems: false }, [1, 1]],
])

table('patternProperties, propertyNames and the number of properties', [
  [{ patternProperties: { '^n': { type: 'number' } } }, { n1: 1, other: 'x' }],
  [{ patternProperties: { '^n': { type: 'number' } } }, { n1: 'x' }, 'n1: must be a number'],
  [
    { patternProperties: { '^n': { minimum: 2 }, '1$': { maximum: 0 } } },
    { n1: 1 },
    'n1: must be at least 2',
    'n1: must be at most 0',
  ],
  [
    { properties: { n: { type: 'number' } }, patternProperties: { n: { minimum: 2 } } },
    { n: 1 },
    'n: must be at least 2',
  ],
  [
    { patternProperties: { '^n': {} }, additionalProperties: false },
    { n: 1, o: 1 },
    'o: is not allowed: the schema has no such property, and ^n does not match',
  ],
  [
    { patternProperties: { '^n': {} }, additionalProperties: { type: 'null' } },
    { n: 1, o: 1 },
    'o: must be null',
  ],
  [
    { patternProperties: { '': false } },
    JSON.parse('{"__proto__":1}'),
    '__proto__: is not allowed: the schema is false',
  ],
  [
    { propertyNames: { enum: ['a', 'b'] } },
    { a: 1, c: 1 },
    'c: is not an allowed name: a name must be one of "a", "b"',
  ],
  [{ propertyNames: { maxLength: 1 } }, { a: 1 }],
  [{ minProperties: 1 }, {}, '(answer): must have at least 1 property'],
  [{ maxProperties: 2 }, { a: 1, b: 1, c: 1 }, '(answer): must have at most 2 properties'],
])

table('dependentRequired, dependentSchemas and dependencies', [
  [{ dependentRequired: { a: ['b'] } }, { c: 1 }],
  [{ dependentRequired: { a: ['b'] } }, { a: 1 }, 'b: is required where "a" is present'],
  [{ dependencies: { a: ['b'] } }, { a: 1 }, 'b: is required where "a" is present'],
  [{ dependentSchemas: { a: { required: ['b'] } } }, { a: 1 }, 'b: is required'],
  [{ dependencies: { a: { maxProperties: 1 } } }, { a: 1, b: 1 }, '(answer): must have at most 1 property'],
  [{ dependentRequired: { toString: ['b'] } }, {}],
])

test('the steps for an answer grow with its length, so that ordinary ones are checked whatever their length', () => {
  const rows = Array.from({ length: 20_000 }, (_, at) => ({
    id: `A-${at}`,
    price: at / 100,
    tags: ['a', `b${at}`],
  }))
  const row = {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^[A-Z]-[0-9]+$' },
      price: { type: 'number', multipleOf: 0.01 },
      tags: { type: 'array', items: { type: 'string' }, uniqueItems: true },
    },
    required: ['id', 'price', 'tags'],
    additionalProperties: false,
  }
  const ordinary: [schema: unknown, answer: unknown][] = [
    [{ pattern: '^[^<>]*$' }, 'é'.repeat(300_000)],
    [{ items: { multipleOf: 0.01 } }, Array.from({ length: 60_000 }, (_, at) => at / 100)],
    [
      { items: { multipleOf: 0.001 }, uniqueItems: true },
      Array.from({ length: 60_000 }, (_, at) => at / 1000),
    ],
    [{ items: row, uniqueItems: true }, rows],
    [{ items: { oneOf: [{ type: 'null' }, { anyOf: [{ type: 'string' }, row] }] } }, rows],
    [
      { patternProperties: { '^[a-z]+[0-9]+$': { type: 'integer' } }, additionalProperties: false },
      Object.fromEntries(rows.map((_, at) => [`name${at}`, at])),
    ],
  ]
  for (const [schema, answer] of ordinary) {
    assert.deepEqual(
      errorsOf(schema, answer, checkSteps(JSON.stringify(answer).length)),
      [],
      JSON.stringify(schema),
    )
  }
})
