import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashKey, isWellFormedKey, makeKey } from './key.ts'

test('a key has its prefix, 32 random characters and a checksum of 6', () => {
  const key = makeKey()
  assert.match(key, /^prl_[0-9A-Za-z]{38}$/)
  assert.ok(isWellFormedKey(key))
  assert.notEqual(makeKey(), key)
})

test('a changed, shortened or lengthened key is detected without a lookup', () => {
  const key = makeKey()
  for (let at = 0; at < key.length; at++) {
    const other = key[at] === 'A' ? 'B' : 'A'
    assert.equal(isWellFormedKey(key.slice(0, at) + other + key.slice(at + 1)), false, `at ${at}`)
  }
  assert.equal(isWellFormedKey(key.slice(0, -1)), false)
  assert.equal(isWellFormedKey(`${key}0`), false)
  assert.equal(isWellFormedKey(`${key}\n`), false)
  assert.equal(isWellFormedKey(''), false)
})

test('bytes that would favour some digits are discarded', () => {
  const bytes = [255, 248, 247, ...Array.from({ length: 61 }, () => 0)]
  const key = makeKey((count) => Uint8Array.from(bytes.splice(0, count)))
  // 247 is the largest byte that is used: 247 mod 62 is 61, the last digit.
  assert.equal(key.slice(4, 36), `z${'0'.repeat(31)}`)
})

test('the stored hash does not contain the key', () => {
  const key = makeKey()
  assert.equal(hashKey(key).length, 43)
  assert.ok(!hashKey(key).includes(key.slice(4, 20)))
})
