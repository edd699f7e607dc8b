import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isDeeperThan, stringEnd, valueEnd } from './scan-json.ts'

const depthOf = (value: unknown): number =>
  typeof value !== 'object' || value === null ? 0 : 1 + Math.max(0, ...Object.values(value).map(depthOf))

const text = fc.string({ unit: fc.constantFrom('"', '\\', '[', '{', ']', '}', 'a', 'ü'), maxLength: 60 })
const tree = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 6 }, text, fc.array(tie('value')), fc.dictionary(text, tie('value'))),
})).value

test('depth is found as a parser would find it, whatever the strings contain', () => {
  fc.assert(
    fc.property(tree, fc.integer({ min: 0, max: 8 }), (value, limit) => {
      assert.equal(isDeeperThan(JSON.stringify(value), limit), depthOf(value) > limit)
    }),
    { numRuns: 2000 },
  )
})

test('an unterminated string is left to the parser', () => {
  assert.equal(isDeeperThan('["\\"[[[[', 2), false)
})

test('a value ends where its text ends, whatever its strings contain', () => {
  fc.assert(
    fc.property(tree, fc.constantFrom('', ' ', ',', ']', '}', '\n}'), (value, after) => {
      const json = JSON.stringify(value)
      assert.equal(valueEnd(json + after, 0), json.length)
    }),
    { numRuns: 2000 },
  )
  for (const word of ['true', 'null', '-1.5e+3', '0']) {
    for (const after of ['', ',', ']', ' ']) assert.equal(valueEnd(word + after, 0), word.length)
  }
})

test('a string of any number of backslashes ends at its quote', () => {
  for (let backslashes = 0; backslashes < 80; backslashes += 2) {
    const string = `${'\\'.repeat(backslashes)}"`
    assert.equal(stringEnd(`"${string} "`, 1), backslashes + 1)
    assert.equal(stringEnd(`"${'\\'.repeat(backslashes + 1)}"${string}`, 1), backslashes + 3 + backslashes)
  }
})
