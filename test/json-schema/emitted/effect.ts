/** Lists schemas that Effect's Schema emits. Each describes the encoded form, and has its definitions next to it. */
import * as S from 'effect/Schema'
import { emitAll, type Sample } from './emitted.ts'

interface Tree {
  readonly value: number
  readonly children: readonly Tree[]
}

const Tree = S.Struct({
  value: S.Finite,
  children: S.Array(S.suspend((): S.Codec<Tree> => Tree)),
}).annotate({ identifier: 'Tree' })

const SAMPLES: readonly Sample<S.Top>[] = [
  [S.Any, [1], []],
  [S.Unknown, [1], []],
  [S.Never, [], [1]],
  [S.Null, [null], [0]],
  [S.Boolean, [true], [1]],
  [S.String, [''], [1]],
  [S.Finite, [1.5], ['x']],
  [S.Int, [1], [1.5]],
  [S.ObjectKeyword, [{}, []], [1]],
  [S.Literal('a'), ['a'], ['b']],
  [S.Literals(['a', 'b']), ['a'], ['c']],
  [S.Enum({ a: 'x', b: 1 }), ['x', 1], ['a']],
  [S.String.check(S.isMinCodePoints(2), S.isMaxCodePoints(3)), ['é😀'], ['😀', 'abcd']],
  [S.String.check(S.isBetweenLength(1, 2)), ['a'], ['']],
  [S.String.check(S.isPattern(/^a+$/)), ['aa'], [1]],
  [S.String.check(S.isStartingWith('a')), ['ab'], ['ba']],
  [S.String.check(S.isEndingWith('a')), ['ba'], ['ab']],
  [S.String.check(S.isIncluding('a')), ['bab'], ['b']],
  [S.String.check(S.isUppercased()), ['AB'], ['ab']],
  [S.String.check(S.isTrimmed()), ['ab'], [' ab']],
  [S.String.check(S.isUUID()), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b']],
  [S.String.check(S.isBase64()), ['YWI='], ['Y']],
  [S.String.check(S.isULID()), ['01ARZ3NDEKTSV4RRFFQ69G5FAV'], ['01']],
  [S.Finite.check(S.isGreaterThan(1), S.isLessThanOrEqualTo(3)), [3], [1, 4]],
  [S.Finite.check(S.isBetween({ minimum: 1, maximum: 2 })), [1, 2], [0, 3]],
  [S.Int.check(S.isMultipleOf(5)), [10], [11]],
  [S.NullOr(S.String), [null, ''], [1]],
  [S.Union([S.String, S.Finite]), ['', 1], [null]],
  [S.Union([]), [], [1]],
  [
    S.Union([S.Struct({ kind: S.Literal('a'), size: S.Finite }), S.Struct({ kind: S.Literal('b') })]),
    [{ kind: 'b' }, { kind: 'a', size: 1 }],
    [{ kind: 'a' }, { kind: 'c' }],
  ],
  [S.Array(S.String), [['a']], [[1]]],
  [S.NonEmptyArray(S.String), [['a']], [[]]],
  [S.Array(S.String).check(S.isMinLength(1), S.isMaxLength(2)), [['a']], [[], ['a', 'b', 'c']]],
  [S.UniqueArray(S.String), [['a', 'b']], [['a', 'a']]],
  [S.Tuple([]), [[]], [[1]]],
  [S.Tuple([S.String, S.Finite]), [['a', 1]], [['a'], ['a', 1, 2]]],
  [S.TupleWithRest(S.Tuple([S.String]), [S.Finite]), [['a', 1, 2]], [['a', 'b']]],
  [S.Struct({}), [{}], []],
  [
    S.Struct({ a: S.String, b: S.optionalKey(S.Finite) }),
    [{ a: '' }, { a: '', b: 1 }],
    [{}, { a: '', b: '' }],
  ],
  [S.Record(S.String, S.Finite), [{ a: 1 }], [{ a: '' }]],
  [S.Record(S.Literals(['a', 'b']), S.Finite), [{ a: 1, b: 2 }], [{ a: 1 }]],
  [
    S.StructWithRest(S.Struct({ a: S.Finite }), [S.Record(S.String, S.Finite)]),
    [{ a: 1, b: 2 }],
    [{ a: 1, b: '' }],
  ],
  [S.TemplateLiteral(['a-', S.Finite]), ['a-1'], [1]],
  [S.String.annotate({ title: 'T', description: 'D', examples: ['x'] }), ['a'], [1]],
  [
    S.Struct({ a: S.String.annotate({ identifier: 'Name' }), b: S.String }),
    [{ a: '', b: '' }],
    [{ a: 1, b: '' }],
  ],
  [Tree, [{ value: 1, children: [{ value: 2, children: [] }] }], [{ value: 1, children: [{}] }]],
  [S.DateFromString, ['2026-01-31T12:00:00Z'], [1]],
  [S.FiniteFromString, ['1.5'], [1]],
]

export const EFFECT = emitAll(
  SAMPLES,
  (schema) => {
    const { schema: json, definitions } = S.toJsonSchemaDocument(schema)
    return Object.keys(definitions).length === 0 ? json : { ...json, $defs: definitions }
  },
  (schema, answer) => S.decodeUnknownExit(schema as S.Codec<unknown>)(answer)._tag === 'Success',
)
