import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isDeeperThan, parseBody, parseExactly } from './json-body.ts'

const depthOf = (value: unknown): number =>
  typeof value !== 'object' || value === null ? 0 : 1 + Math.max(0, ...Object.values(value).map(depthOf))

test('depth is found as a parser would find it, whatever the strings contain', () => {
  const text = fc.string({ unit: fc.constantFrom('"', '\\', '[', '{', ']', '}', 'a', 'ü') })
  const tree = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 6 }, text, fc.array(tie('value')), fc.dictionary(text, tie('value'))),
  })).value
  fc.assert(
    fc.property(tree, fc.integer({ min: 0, max: 8 }), (value, limit) => {
      assert.equal(isDeeperThan(Buffer.from(JSON.stringify(value)), limit), depthOf(value) > limit)
    }),
    { numRuns: 2000 },
  )
})

test('an unterminated string is left to the parser', () => {
  assert.equal(isDeeperThan(Buffer.from('["\\"[[[['), 2), false)
  assert.throws(() => parseBody(Buffer.from('["\\"[[[['), 2), /not valid JSON/)
})

test('every number keeps the digits that it was written with', () => {
  const text = '{"a":12345678901234567890,"b":1e400,"c":-0,"d":1.10,"e":[0.1,"1.10"],"__proto__":{"x":1}}'
  assert.equal(JSON.stringify(parseExactly(Buffer.from(text))), text)
})
