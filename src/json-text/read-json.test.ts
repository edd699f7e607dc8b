import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseExactly, readJson, withoutExcerpt } from './read-json.ts'

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
