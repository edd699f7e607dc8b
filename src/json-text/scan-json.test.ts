import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isDeeperThan, isMostlyStrings, stringEnd, valueEnd } from './scan-json.ts'

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
    { numRuns: 1000 },
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
    { numRuns: 1000 },
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

const isMostly = (text: string, maxQuotes: number, maxOther: number): boolean =>
  isMostlyStrings(Buffer.from(text), maxQuotes, maxOther)

test('a text is mostly strings if it has few quotes and little else', () => {
  const long = JSON.stringify({ a: 'x'.repeat(1000), b: ['[{,'.repeat(1000)] })
  assert.ok(isMostly(long, 8, 7))
  assert.ok(!isMostly(long, 7, 7))
  assert.ok(!isMostly(long, 8, 6))
  assert.ok(!isMostly('[0,0,0,0]', 8, 8))
  assert.ok(isMostly('[0,0,0,0]', 0, 9))
  assert.ok(!isMostly(JSON.stringify('"'.repeat(9)), 10, 100))
  assert.ok(isMostly('"unterminated', 1, 0))
  assert.ok(isMostly('', 0, 0))
})

test('what is in strings and what is not is told apart as a parser would, whatever the strings contain', () => {
  fc.assert(
    fc.property(tree, (value) => {
      const json = JSON.stringify(value)
      const quotes = json.split('"').length - 1
      const other = json.replace(/"(?:[^"\\]|\\.)*"/g, '').length
      assert.ok(isMostly(json, quotes, other))
      assert.ok(!isMostly(json, quotes, other - 1))
      if (quotes > 0) assert.ok(!isMostly(json, quotes - 1, other))
    }),
    { numRuns: 1000 },
  )
})
