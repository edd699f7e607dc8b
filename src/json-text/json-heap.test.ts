import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayNeedMoreHeap } from './json-heap.ts'

const MIB = 1024 * 1024
const HEAP = 64 * MIB

/** An array that is about as long as given, of the same element many times. */
const arrayOf = (element: string, bytes: number) =>
  `[${`${element},`.repeat(bytes / (element.length + 1))}${element}]`

test('a text of conversations fits, even if its strings are full of commas and braces', () => {
  const message = `{"role":"user","content":"${'a{"b":[1,2,3]},'.replaceAll('"', '\\"').repeat(10)}"}`
  assert.equal(mayNeedMoreHeap(arrayOf(message, 10 * MIB), HEAP), false)
})

test('a text of many small values does not fit', () => {
  for (const element of ['{}', '[]', '1', '""', '[0]', '{"a":{}}', '{"a":1,"b":2}']) {
    assert.equal(mayNeedMoreHeap(arrayOf(element, 10 * MIB), HEAP), true, element)
  }
})

test('names that are array indexes count more, also if they are escaped or followed by white space', () => {
  const withName = (name: string) => arrayOf(`{"${name}" :"${' '.repeat(20)}"}`, 5 * MIB)
  assert.equal(mayNeedMoreHeap(withName('a1'), HEAP), false)
  assert.equal(mayNeedMoreHeap(withName('31'), HEAP), true)
  assert.equal(mayNeedMoreHeap(withName('\\u0033'), HEAP), true)
  assert.equal(mayNeedMoreHeap(arrayOf(`"31${' '.repeat(20)}"`, 5 * MIB), HEAP), false, 'a value is no name')
})

test('a text that is not JSON is counted too', () => {
  assert.equal(mayNeedMoreHeap('{"'.repeat(2 * MIB), HEAP), true)
  assert.equal(mayNeedMoreHeap('"', HEAP), false)
  assert.equal(mayNeedMoreHeap('"\\'.repeat(MIB), HEAP), false)
})
