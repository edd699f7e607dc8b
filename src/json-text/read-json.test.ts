import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayNeedMoreHeap, parseExactly, readJson, withoutExcerpt } from './read-json.ts'

test('text within the depth is parsed', () => {
  assert.deepEqual(readJson('{"a":[[1]]}', 3), { ok: true, value: { a: [[1]] } })
})

test('text that nests too deep is not parsed', () => {
  const read = readJson('['.repeat(4_000_000), 64)
  assert.deepEqual(read, { ok: false, tooDeep: true, error: 'nested more than 64 levels deep' })
})

test('an error can be freed of the text that it quotes', () => {
  const read = readJson('{"prompt": my secret}', 64)
  assert.ok(!read.ok && !read.tooDeep)
  assert.match(read.error, /secret/)
  assert.doesNotMatch(withoutExcerpt(read.error), /secret/)
})

test('every number keeps the digits that it was written with', () => {
  const text = '{"a":12345678901234567890,"b":1e400,"c":-0,"d":1.10,"e":[0.1,"1.10"],"__proto__":{"x":1}}'
  assert.equal(JSON.stringify(parseExactly(text)), text)
})

const MIB = 1024 * 1024
const HEAP = 64 * MIB

/** Returns an array of this many bytes that repeats one element. */
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
