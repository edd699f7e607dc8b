import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TransientMap } from './transient-map.ts'

test('a transient map holds what was set until it is deleted, in the order in which keys were added', () => {
  const map = new TransientMap<string, { readonly n: number }>()
  for (const n of [1, 2, 3]) map.set(`key ${n}`, { n })
  map.set('key 1', { n: 10 })
  map.delete('key 2')
  map.delete('no such key')
  assert.equal(map.size, 2)
  assert.deepEqual(map.get('key 1'), { n: 10 })
  assert.equal(map.get('key 2'), null)
  assert.deepEqual([...map.keys()], ['key 1', 'key 3'])
  assert.deepEqual([...map.values()], [{ n: 10 }, { n: 3 }])
})

test('a key that is deleted while the values are read is left out', () => {
  const map = new TransientMap<number, { readonly n: number }>()
  for (const n of [1, 2, 3]) map.set(n, { n })
  const seen: number[] = []
  for (const { n } of map.values()) {
    seen.push(n)
    map.delete(2)
  }
  assert.deepEqual(seen, [1, 3])
})
