/** Lists schemas that ArkType emits. */
import { type } from 'arktype'
import { emitAll, type Sample } from './emitted.ts'

const tree = type.module({ tree: { value: 'number', 'children?': 'tree[]' } })

interface Type {
  (answer: unknown): unknown
  toJsonSchema(): object
}

const SAMPLES: readonly Sample<Type>[] = [
  [type('unknown'), [1], []],
  [type('never'), [], [1]],
  [type('null'), [null], [0]],
  [type('boolean'), [true], [1]],
  [type('string'), [''], [1]],
  [type('number'), [1.5], ['']],
  [type('number.integer'), [1], [1.5]],
  [type('number % 5'), [10], [11]],
  [type('0 < number <= 5'), [5], [0, 6]],
  [type('number >= 1'), [1], [0]],
  [type('string > 2'), ['abc'], ['ab']],
  [type('1 <= string <= 3'), ['abc'], ['', 'abcd']],
  [type('string == 2'), ['ab'], ['a']],
  [type('string.alpha'), ['ab'], ['1']],
  [type('string.alphanumeric'), ['a1'], ['-']],
  [type('string.digits'), ['12'], ['a']],
  [type('string.hex'), ['ff'], ['x']],
  [type('string.base64'), ['YWI='], ['Y']],
  [type('string.base64.url'), ['YW-_'], ['+']],
  [type('string.email'), ['a@b.co'], ['a']],
  [type('string.uuid'), ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'], ['0b']],
  [
    type('string.uuid.v4'),
    ['0b8e2f0c-6a3c-4e1a-9a40-3a7a2a1f4b11'],
    ['0b8e2f0c-6a3c-1e1a-9a40-3a7a2a1f4b11'],
  ],
  [type('string.date.iso'), ['2026-01-31T12:00:00Z'], ['x']],
  [type('string.ip.v4'), ['192.0.2.1'], ['192.0.2']],
  [type('string.semver'), ['1.2.3-rc.1'], ['1.2']],
  [type('string.integer'), ['-12'], ['1.5']],
  [type('string.numeric'), ['-1.5'], ['a']],
  [type(/^a+$/), ['aa'], ['b']],
  [type("'x'"), ['x'], ['y']],
  [type('1'), [1], ['1']],
  [type("'a' | 'b' | 1"), ['a', 1], ['c']],
  [type('string | number | null'), ['', 1, null], [true]],
  [type('string[]'), [['a']], [[1]]],
  [type('1 <= string[] < 3'), [['a']], [[], ['a', 'b', 'c']]],
  [type('(string | number)[][]'), [[['a', 1]]], [['a']]],
  [type([]), [[]], [[1]]],
  [type(['string', 'number']), [['a', 1]], [['a'], ['a', 1, 2]]],
  [type(['string', 'number?']), [['a'], ['a', 1]], [['a', 'b']]],
  [type(['string', '...', 'number[]']), [['a', 1, 2]], [['a', 'b']]],
  [type({ a: 'string', 'b?': 'number' }), [{ a: '' }, { a: '', b: 1 }], [{}, { a: '', b: '' }]],
  [type({ a: 'string', '+': 'reject' }), [{ a: '' }], [{ a: '', b: 1 }]],
  [type({ '[string]': 'number' }), [{ a: 1 }], [{ a: '' }]],
  [type({ '[/^n/]': 'number', a: 'string' }), [{ n: 1, a: '' }], [{ n: '', a: '' }, { n: 1 }]],
  [type('Record<string, number>'), [{ a: 1 }], [{ a: '' }]],
  [type({ a: ['string', '=', 'x'] }), [{ a: '' }, {}], [{ a: 1 }]],
  [
    type({ kind: "'a'", size: 'number' }).or({ kind: "'b'" }),
    [{ kind: 'b' }, { kind: 'a', size: 1 }],
    [{ kind: 'a' }, { kind: 'c' }],
  ],
  [type({ a: 'string' }).and({ b: 'string' }), [{ a: '', b: '' }], [{ a: '' }]],
  [type({ a: 'string' }).partial(), [{}], [{ a: 1 }]],
  [type('string').describe('a name'), ['a'], [1]],
  [tree.tree, [{ value: 1, children: [{ value: 2 }] }], [{ value: 1, children: [{}] }]],
]

export const ARKTYPE = emitAll(
  SAMPLES,
  (of) => of.toJsonSchema(),
  (of, answer) => !(of(answer) instanceof type.errors),
)
