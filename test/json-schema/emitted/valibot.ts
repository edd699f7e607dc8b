/** Lists schemas that `@valibot/to-json-schema` emits for draft 2020-12, which the client requests. */
import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { emitAll, type Sample } from './emitted.ts'

type Schema = v.GenericSchema

interface Tree {
  readonly value: number
  readonly children: readonly Tree[]
}

const Tree: v.GenericSchema<Tree> = v.object({ value: v.number(), children: v.array(v.lazy(() => Tree)) })

const SAMPLES: readonly Sample<Schema>[] = [
  [v.any(), [1], []],
  [v.unknown(), [null], []],
  [v.null(), [null], [0]],
  [v.boolean(), [true], [1]],
  [v.string(), [''], [1]],
  [v.number(), [1.5], ['1']],
  [v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3)), [1, 3], [0, 1.5, 4]],
  [v.pipe(v.number(), v.gtValue(1), v.ltValue(3)), [2], [1, 3]],
  [v.pipe(v.number(), v.multipleOf(5)), [10], [11]],
  [v.pipe(v.string(), v.minLength(2), v.maxLength(3)), ['ab'], ['a', 'abcd']],
  [v.pipe(v.string(), v.length(2)), ['ab'], ['abc']],
  [v.pipe(v.string(), v.nonEmpty()), ['a'], ['']],
  [v.pipe(v.string(), v.email()), ['a@b.co'], ['a']],
  [v.pipe(v.string(), v.url()), ['https://example.com/a'], ['example']],
  [v.pipe(v.string(), v.uuid()), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b8e']],
  [v.pipe(v.string(), v.isoDate()), ['2026-01-31'], ['2026-13-31']],
  [v.pipe(v.string(), v.isoTimestamp()), ['2026-01-31T12:00:00Z'], ['yesterday']],
  [v.pipe(v.string(), v.ipv4()), ['192.0.2.1'], ['192.0.2.256']],
  [v.pipe(v.string(), v.ipv6()), ['2001:db8::1'], ['2001:']],
  [v.pipe(v.string(), v.base64()), ['YWI='], [1]],
  [v.pipe(v.string(), v.ulid()), ['01ARZ3NDEKTSV4RRFFQ69G5FAV'], ['01']],
  [v.pipe(v.string(), v.cuid2()), ['tz4a98xxat96iws9zmbrgj3a'], ['-']],
  [v.pipe(v.string(), v.nanoid()), ['V1StGXR8_Z5jdHi6B-myT'], ['a b']],
  [v.pipe(v.string(), v.hexadecimal()), ['ff00'], ['xyz']],
  [v.pipe(v.string(), v.hexColor()), ['#ff8800'], ['ff8800']],
  [v.pipe(v.string(), v.mac()), ['00:1a:2b:3c:4d:5e'], ['00']],
  [v.pipe(v.string(), v.bic()), ['DEUTDEFF'], ['D']],
  [v.pipe(v.string(), v.decimal()), ['-1.5'], ['a']],
  [v.pipe(v.string(), v.digits()), ['012'], ['1a']],
  [v.pipe(v.string(), v.octal()), ['0o17'], ['9x']],
  [v.pipe(v.string(), v.regex(/^[a-z]+$/)), ['ab'], ['AB']],
  [v.pipe(v.string(), v.startsWith('a')), ['ab'], ['ba']],
  [v.pipe(v.string(), v.endsWith('a')), ['ba'], ['ab']],
  [v.pipe(v.string(), v.includes('.a')), ['x.a.y'], ['xa']],
  [v.literal('x'), ['x'], ['y']],
  [v.picklist(['a', 'b']), ['a'], ['c']],
  [v.picklist([]), [], ['a']],
  [v.enum({ a: 'x', b: 'y' }), ['x'], ['a']],
  [v.nullable(v.string()), [null, ''], [1]],
  [v.nullish(v.string()), [null, ''], [1]],
  [v.optional(v.string(), 'x'), [''], [1]],
  [v.array(v.string()), [['a']], [[1], 'a']],
  [v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(2)), [['a']], [[], ['a', 'b', 'c']]],
  [v.tuple([]), [[]], [1]],
  [v.tuple([v.string(), v.number()]), [['a', 1]], [['a'], [1, 'a']]],
  [v.strictTuple([v.string()]), [['a']], [['a', 1], []]],
  [v.looseTuple([v.string()]), [['a'], ['a', 1]], [[]]],
  [v.tupleWithRest([v.string()], v.number()), [['a', 1, 2]], [['a', 'b']]],
  [
    v.object({ a: v.string(), b: v.optional(v.number()) }),
    [{ a: '' }, { a: '', b: 1, c: 2 }],
    [{}, { a: '', b: '' }],
  ],
  [v.strictObject({ a: v.string() }), [{ a: '' }], [{ a: '', b: 1 }]],
  [v.looseObject({ a: v.string() }), [{ a: '', b: 1 }], [{}]],
  [v.objectWithRest({ a: v.string() }, v.number()), [{ a: '', b: 1 }], [{ a: '', b: '' }]],
  [v.partial(v.object({ a: v.string() })), [{}], [{ a: 1 }]],
  [v.pipe(v.record(v.string(), v.number()), v.minEntries(1), v.maxEntries(2)), [{ a: 1 }], [{}, { a: '' }]],
  [v.union([v.string(), v.number()]), ['', 1], [null]],
  [v.union([]), [], [1]],
  [
    v.variant('kind', [
      v.object({ kind: v.literal('a'), size: v.number() }),
      v.object({ kind: v.literal('b') }),
    ]),
    [{ kind: 'b' }, { kind: 'a', size: 1 }],
    [{ kind: 'a' }, { kind: 'c' }],
  ],
  [v.intersect([v.object({ a: v.string() }), v.object({ b: v.string() })]), [{ a: '', b: '' }], [{ a: '' }]],
  [
    v.pipe(v.object({ a: v.string() }), v.title('A'), v.description('an a'), v.metadata({ since: 1 })),
    [{ a: '' }],
    [{}],
  ],
  [v.pipe(v.string(), v.examples(['x', 'y'])), ['x'], [1]],
  [
    v.lazy(() => Tree),
    [{ value: 1, children: [{ value: 2, children: [] }] }],
    [{ value: 1, children: [{}] }],
  ],
]

export const VALIBOT = emitAll(
  SAMPLES,
  (schema) => toJsonSchema(schema, { target: 'draft-2020-12', typeMode: 'input' }),
  (schema, answer) => v.safeParse(schema, answer).success,
)
