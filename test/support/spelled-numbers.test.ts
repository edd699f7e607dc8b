/** Tests that spelling numbers differently preserves their values and the rest of the text. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { numbersIn, spellings } from './spelled-numbers.ts'

test('a text whose numbers are spelled in another way has the same value', () => {
  const value = fc.jsonValue({ maxDepth: 3 })
  fc.assert(
    fc.property(value, spellings, (given, spell) => {
      const text = JSON.stringify(given)
      const other = spell(text)
      // The sign of zero does not matter in JSON values.
      assert.equal(JSON.stringify(JSON.parse(other)), text)
      assert.equal(numbersIn(other).length, numbersIn(text).length)
    }),
    { numRuns: 2000 },
  )
})

test('every form occurs: fractions, exponents of either sign, and negative zeros', () => {
  const texts = fc.sample(spellings, 200).map((spell) => spell('[300, 0, 1.5, "3 and 4"]'))
  for (const form of [/\[300,/, /\.0/, /e-\d/i, /e\+\d/i, /e\d/i, /-0[,.e]/i, /0\.0*3/]) {
    assert.ok(
      texts.some((text) => form.test(text)),
      String(form),
    )
  }
  assert.ok(texts.every((text) => text.includes('"3 and 4"')))
})
