import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { TransientMap } from './transient-map.ts'

const change = fc.record({ isDeleted: fc.boolean(), key: fc.nat(20), value: fc.nat() })

test('a transient map holds what a Map holds, in the same order, however much was deleted', () => {
  fc.assert(
    fc.property(fc.array(change, { minLength: 300, maxLength: 600 }), (changes) => {
      const map = new TransientMap<number, number>()
      const expected = new Map<number, number>()
      for (const { isDeleted, key, value } of changes) {
        for (const one of [map, expected]) {
          if (isDeleted) one.delete(key)
          else one.set(key, value)
        }
        assert.equal(map.get(key), expected.get(key))
        assert.equal(map.size, expected.size)
      }
      assert.deepEqual(map.keys(), [...expected.keys()])
      assert.deepEqual(map.values(), [...expected.values()])
    }),
    { numRuns: 100 },
  )
})

test('keys and values are those of the moment in which they were read', () => {
  const map = new TransientMap<number, string>()
  for (const n of [1, 2, 3]) map.set(n, `value ${n}`)
  const [keys, values] = [map.keys(), map.values()]
  map.delete(2)
  assert.deepEqual(keys, [1, 2, 3])
  assert.deepEqual(values, ['value 1', 'value 2', 'value 3'])
})
