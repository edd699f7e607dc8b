/** Lists schemas of TypeBox, whose types are JSON Schemas. */
import Type, { type TSchema } from 'typebox'
import { Value } from 'typebox/value'
import { emitAll, type Sample } from './emitted.ts'

const A = Type.Object({ a: Type.String() })
const B = Type.Object({ b: Type.Number() })
const SHAPES = Type.Union([
  Type.Object({ kind: Type.Literal('a'), size: Type.Number() }),
  Type.Object({ kind: Type.Literal('b') }),
])
const UP_TO_3 = Type.Union([Type.Literal(1), Type.Literal(2), Type.Literal(3)])

const SAMPLES: readonly Sample<TSchema>[] = [
  [Type.Any(), [1, null], []],
  [Type.Unknown(), [{}], []],
  [Type.Never(), [], [1, null]],
  [Type.Null(), [null], [0]],
  [Type.Boolean(), [true], ['true']],
  [Type.String(), [''], [1]],
  [Type.String({ minLength: 2, maxLength: 3 }), ['é😀'], ['a', 'abcd']],
  [Type.String({ pattern: '^\\w+$' }), ['a_1'], ['a b']],
  [Type.String({ format: 'uuid' }), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['x']],
  [Type.String({ format: 'date-time' }), ['2026-01-31T12:00:00Z'], ['2026-01-31']],
  [Type.Number({ minimum: 1, exclusiveMaximum: 2 }), [1, 1.9], [0.9, 2]],
  [Type.Number({ multipleOf: 0.01 }), [1.37, 0.07], [0.005]],
  [Type.Integer({ exclusiveMinimum: 0 }), [1], [0, 1.5]],
  [Type.Literal('x'), ['x'], ['y']],
  [Type.Literal(1), [1], ['1']],
  [Type.Literal(false), [false], [null]],
  [Type.Enum(['a', 'b']), ['a'], ['c']],
  [Type.Enum([]), [], ['a', 1]],
  [Type.Array(Type.String(), { minItems: 1 }), [['a']], [[], [1]]],
  [Type.Array(Type.Number(), { uniqueItems: true }), [[1, 2]], [[1, 1]]],
  [Type.Array(Type.Number(), { contains: Type.Literal(1), maxContains: 1 }), [[1, 2]], [[2], [1, 1]]],
  [Type.Tuple([]), [[]], [[1]]],
  [Type.Tuple([Type.String(), Type.Number()]), [['a', 1]], [['a'], ['a', 1, 2], [1, 'a']]],
  [Type.Object({}), [{}, { a: 1 }], [[]]],
  [A, [{ a: '' }, { a: '', b: 1 }], [{}, { a: 1 }]],
  [Type.Object({ a: Type.String() }, { additionalProperties: false }), [{ a: '' }], [{ a: '', b: 1 }]],
  [
    Type.Object({ a: Type.String() }, { additionalProperties: Type.Number() }),
    [{ a: '', b: 1 }],
    [{ a: '', b: '' }],
  ],
  [Type.Object({ a: Type.Optional(Type.Integer()) }), [{}, { a: 1 }], [{ a: 1.5 }]],
  [Type.Readonly(A), [{ a: '' }], [{ a: 1 }]],
  [Type.Partial(A), [{}, { a: '' }], [{ a: 1 }]],
  [Type.Required(Type.Partial(A)), [{ a: '' }], [{}]],
  [Type.Pick(Type.Object({ a: Type.String(), b: Type.String() }), ['a']), [{ a: '' }], [{ b: '' }]],
  [Type.Omit(Type.Object({ a: Type.String(), b: Type.String() }), ['a']), [{ b: '' }], [{ a: '' }]],
  [Type.Record(Type.String(), Type.Number()), [{}, { a: 1 }], [{ a: 'x' }]],
  [
    Type.Record(Type.Union([Type.Literal('a'), Type.Literal('b')]), Type.Number()),
    [{ a: 1, b: 2 }],
    [{ a: 1 }],
  ],
  [Type.Record(Type.String({ pattern: '^n' }), Type.Number()), [{ n: 1 }], [{ n: 'x' }]],
  [Type.Record(Type.Integer(), Type.String()), [{ 12: '' }], [{ 12: 1 }]],
  [
    Type.Record(Type.TemplateLiteral([Type.Literal('key-'), Type.Number()]), Type.Number()),
    [{ 'key-1': 1 }],
    [{ 'key-1': '' }],
  ],
  [SHAPES, [{ kind: 'b' }, { kind: 'a', size: 1 }], [{ kind: 'a' }, { kind: 'c' }]],
  [Type.Union([Type.String(), Type.Null()]), ['', null], [1]],
  [Type.Union([]), [], [1]],
  [Type.Intersect([A, B]), [{ a: '', b: 1 }], [{ a: '' }]],
  [Type.Intersect([]), [1], []],
  [Type.Evaluate(Type.Intersect([A, B])), [{ a: '', b: 1 }], [{ b: 1 }]],
  [Type.KeyOf(Type.Object({ a: Type.Null(), b: Type.Null() })), ['a', 'b'], ['c']],
  [Type.Index(A, ['a']), [''], [1]],
  [Type.Exclude(UP_TO_3, Type.Literal(1)), [2, 3], [1]],
  [Type.Extract(UP_TO_3, Type.Literal(1)), [1], [2]],
  [Type.TemplateLiteral([Type.Literal('a-'), Type.Number()]), ['a-1', 'a--1.5'], ['b', 'a-']],
  [
    Type.TemplateLiteral([
      Type.Union([Type.Literal('red'), Type.Literal('blue')]),
      Type.Literal('-'),
      Type.String(),
    ]),
    ['red-', 'blue-sky'],
    ['green-'],
  ],
  [Type.Capitalize(Type.Literal('abc')), ['Abc'], ['abc']],
  [Type.Unsafe({ type: 'string' }), [''], [1]],
  [Type.Script('{ x: number, y?: string[] }'), [{ x: 1 }, { x: 1, y: ['a'] }], [{ y: [] }, { x: 1, y: [1] }]],
  [
    Type.Cyclic({ Node: Type.Object({ next: Type.Union([Type.Ref('Node'), Type.Null()]) }) }, 'Node'),
    [{ next: null }, { next: { next: null } }],
    [{ next: {} }, {}],
  ],
  [
    Type.Module({ A: Type.Object({ b: Type.Ref('B') }), B: Type.Array(Type.String()) }).A,
    [{ b: ['x'] }],
    [{ b: [1] }],
  ],
]

export const TYPEBOX = emitAll(
  SAMPLES,
  (type) => type,
  (type, answer) => Value.Check(type, answer),
)
