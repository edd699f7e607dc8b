/** Lists schemas that Zod 4 emits, and draft-07 schemas that zod-to-json-schema emits for the types of Zod 3. */
import * as z from 'zod'
import * as z3 from 'zod/v3'
import { zodToJsonSchema } from 'zod-to-json-schema'
import { emitAll, type Sample } from './emitted.ts'

const Tree = z.object({
  value: z.number(),
  get children() {
    return z.array(Tree)
  },
})

const SAMPLES: readonly Sample<z.ZodType>[] = [
  [z.any(), [1], []],
  [z.unknown(), [1], []],
  [z.never(), [], [1]],
  [z.null(), [null], [0]],
  [z.boolean(), [true], [1]],
  [z.string(), [''], [1]],
  [z.number(), [1.5], ['']],
  [z.int(), [1], [1.5]],
  [z.int32(), [1], [2 ** 40]],
  [z.number().gt(1).lte(3), [3], [1, 4]],
  [z.number().multipleOf(0.01), [1.37], [0.005]],
  [z.number().positive(), [1], [0]],
  [z.string().min(2).max(3), ['ab'], ['a', 'abcd']],
  [z.string().length(2), ['ab'], ['a']],
  [z.string().regex(/^a+$/), ['aa'], ['b']],
  [z.string().startsWith('a').endsWith('z').includes('m'), ['amz'], ['az', 'mz']],
  [z.email(), ['a@b.co'], ['a']],
  [z.url(), ['https://example.com/'], ['x']],
  [z.uuid(), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b']],
  [z.guid(), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b']],
  [z.iso.datetime(), ['2026-01-31T12:00:00Z'], ['2026-01-31']],
  [z.iso.date(), ['2026-01-31'], ['2026-02-31']],
  [z.iso.duration(), ['P1DT2H'], ['1D']],
  [z.ipv4(), ['192.0.2.1'], ['192.0.2']],
  [z.ipv6(), ['2001:db8::1'], ['2001:']],
  [z.cidrv4(), ['192.0.2.0/24'], ['192.0.2.0']],
  [z.base64(), ['YWI='], []],
  [z.base64url(), ['YW-_'], ['+']],
  [z.jwt(), ['eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2ln'], [1]],
  [z.cuid2(), ['tz4a98xxat96iws9zmbrgj3a'], ['-']],
  [z.ulid(), ['01ARZ3NDEKTSV4RRFFQ69G5FAV'], ['01']],
  [z.nanoid(), ['V1StGXR8_Z5jdHi6B-myT'], ['a b']],
  [z.hostname(), ['example.com'], ['-']],
  [z.e164(), ['+14155552671'], ['1']],
  [z.hex(), ['ff'], ['x']],
  [z.string().lowercase(), ['a'], ['A']],
  [z.literal('x'), ['x'], ['y']],
  [z.literal(['x', 1, null]), ['x', 1, null], ['y']],
  [z.enum(['a', 'b']), ['a'], ['c']],
  [z.enum([]), [], ['a']],
  [z.templateLiteral(['a-', z.number()]), ['a-1'], ['b']],
  [z.nullable(z.string()), [null, ''], [1]],
  [z.string().optional(), [''], [1]],
  [z.string().default('x'), [''], [1]],
  [z.string().nullish().prefault('x'), ['', null], [1]],
  [z.array(z.string()).min(1).max(2), [['a']], [[], ['a', 'b', 'c']]],
  [z.tuple([]), [[]], [[1]]],
  [z.tuple([z.string(), z.number()]), [['a', 1]], [['a'], ['a', 1, 2]]],
  [z.tuple([z.string()], z.number()), [['a', 1, 2]], [['a', 'b']]],
  [
    z.object({ a: z.string(), b: z.number().optional() }),
    [{ a: '' }, { a: '', b: 1, c: 1 }],
    [{}, { a: '', b: '' }],
  ],
  [z.strictObject({ a: z.string() }), [{ a: '' }], [{ a: '', b: 1 }]],
  [z.looseObject({ a: z.string() }), [{ a: '', b: 1 }], [{}]],
  [z.object({ a: z.string() }).catchall(z.number()), [{ a: '', b: 1 }], [{ a: '', b: '' }]],
  [z.object({ a: z.string() }).partial(), [{}], [{ a: 1 }]],
  [z.object({ a: z.string() }).readonly(), [{ a: '' }], [{ a: 1 }]],
  [z.record(z.string(), z.number()), [{ a: 1 }], [{ a: '' }]],
  [z.record(z.enum(['a', 'b']), z.number()), [{ a: 1, b: 2 }], [{ a: 1 }, { a: 1, b: 1, c: 1 }]],
  [z.partialRecord(z.enum(['a', 'b']), z.number()), [{ a: 1 }], [{ c: 1 }]],
  [z.record(z.string().regex(/^n/), z.number()), [{ n: 1 }], [{ a: 1 }]],
  [z.union([z.string(), z.number()]), ['', 1], [null]],
  [
    z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('a'), size: z.number() }),
      z.object({ kind: z.literal('b') }),
    ]),
    [{ kind: 'b' }, { kind: 'a', size: 1 }],
    [{ kind: 'a' }, { kind: 'c' }],
  ],
  [z.xor([z.string(), z.number()]), ['', 1], [null]],
  [
    z.intersection(z.looseObject({ a: z.string() }), z.looseObject({ b: z.string() })),
    [{ a: '', b: '' }],
    [{ a: '' }],
  ],
  [z.string().meta({ title: 'T', examples: ['x'], deprecated: true, since: 1 }), ['a'], [1]],
  [z.string().meta({ id: 'Name' }).array(), [['a']], [[1]]],
  [z.string().transform((text) => text.length), ['a'], [1]],
  [z.string().pipe(z.transform((text) => [text])), ['a'], [1]],
  [z.codec(z.string(), z.number(), { decode: Number, encode: String }), ['1'], [1]],
  [z.stringbool(), ['true'], [1]],
  [z.json(), [{ a: [1, null] }], []],
  [Tree, [{ value: 1, children: [{ value: 2, children: [] }] }], [{ value: 1, children: [{}] }]],
  [z.file().or(z.string()).pipe(z.string()).catch('x').or(z.never()), ['a'], []],
]

export const ZOD = emitAll(
  SAMPLES,
  (type) => z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }),
  (type, answer) => type.safeParse(answer).success,
)

interface List {
  readonly value: number
  readonly next: List | null
}

const List: z3.ZodType<List> = z3.object({ value: z3.number(), next: z3.lazy(() => List).nullable() })

const SAMPLES_OF_3: readonly Sample<z3.ZodType>[] = [
  [z3.any(), [1], []],
  [z3.never(), [], [1]],
  [z3.null(), [null], [0]],
  [z3.boolean(), [true], [1]],
  [z3.string().min(2).max(3), ['ab'], ['a', 'abcd']],
  [z3.string().regex(/^a+$/), ['aa'], ['b']],
  [z3.string().startsWith('a.').endsWith('z').includes('(m)'), ['a.(m)z'], ['a.mz', 'ab(m)z']],
  [z3.string().email(), ['a@b.co'], ['a']],
  [z3.string().url(), ['https://example.com/'], ['x']],
  [z3.string().uuid(), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b']],
  [z3.string().datetime(), ['2026-01-31T12:00:00Z'], ['2026']],
  [z3.string().date(), ['2026-01-31'], ['2026-02-31']],
  [z3.string().duration(), ['P1D'], ['1D']],
  [z3.string().ip(), ['192.0.2.1', '2001:db8::1'], ['192.0.2']],
  [z3.string().cidr({ version: 'v4' }), ['192.0.2.0/24'], ['192.0.2.0']],
  [z3.string().base64(), ['YWI='], [1]],
  [z3.string().nanoid(), ['V1StGXR8_Z5jdHi6B-myT'], ['a b']],
  [z3.string().cuid2(), ['tz4a98xxat96iws9zmbrgj3a'], ['-']],
  [z3.string().ulid(), ['01ARZ3NDEKTSV4RRFFQ69G5FAV'], ['01']],
  [z3.number().int().gt(1).lte(3).multipleOf(3), [3], [1, 2, 3.5]],
  [z3.literal('x'), ['x'], ['y']],
  [z3.enum(['a', 'b']), ['a'], ['c']],
  [z3.nativeEnum({ a: 'x', b: 1 }), ['x', 1], ['a']],
  [z3.string().nullable(), [null, ''], [1]],
  [z3.object({ a: z3.string() }).nullable(), [null, { a: '' }], [{}]],
  [z3.array(z3.string()).nonempty().max(2), [['a']], [[], ['a', 'b', 'c']]],
  [z3.tuple([]), [[]], [[1]]],
  [z3.tuple([z3.string(), z3.number()]), [['a', 1]], [['a'], ['a', 1, 2]]],
  [z3.tuple([z3.string()]).rest(z3.number()), [['a', 1]], [['a', 'b']]],
  [
    z3.object({ a: z3.string(), b: z3.number().optional() }).strict(),
    [{ a: '' }],
    [
      { a: '', b: '' },
      { a: '', c: 1 },
    ],
  ],
  [z3.object({ a: z3.string() }).passthrough(), [{ a: '', b: 1 }], [{}]],
  [z3.object({ a: z3.string() }).catchall(z3.number()), [{ a: '', b: 1 }], [{ a: '', b: '' }]],
  [z3.record(z3.number()), [{ a: 1 }], [{ a: '' }]],
  [z3.record(z3.enum(['a', 'b']), z3.number()), [{ a: 1 }], [{ c: 1 }]],
  [z3.record(z3.string().regex(/^n/), z3.number()), [{ n: 1 }], [{ a: 1 }]],
  [z3.union([z3.string(), z3.number()]), ['', 1], [null]],
  [z3.union([z3.literal('a'), z3.literal(1)]), ['a', 1], ['b']],
  [
    z3.discriminatedUnion('kind', [
      z3.object({ kind: z3.literal('a'), size: z3.number() }),
      z3.object({ kind: z3.literal('b') }),
    ]),
    [{ kind: 'b' }, { kind: 'a', size: 1 }],
    [{ kind: 'a' }, { kind: 'c' }],
  ],
  [
    z3.intersection(z3.object({ a: z3.string() }), z3.object({ b: z3.string() })),
    [{ a: '', b: '' }],
    [{ a: '' }],
  ],
  [z3.string().describe('a name').default('x'), ['a'], [1]],
  [z3.string().brand('Name').readonly(), ['a'], [1]],
  [z3.string().transform((text) => text.length), ['a'], [1]],
  [List, [{ value: 1, next: { value: 2, next: null } }], [{ value: 1, next: {} }]],
]

export const ZOD_TO_JSON_SCHEMA = emitAll(
  SAMPLES_OF_3,
  (type) => zodToJsonSchema(type),
  (type, answer) => type.safeParse(answer).success,
)
