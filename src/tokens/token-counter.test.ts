import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { messageTexts, textSample, textSlices } from './token-counter.ts'

const content = fc.string({
  unit: fc.constantFrom('"', '\\', 'a', '{', 'content', '\n', '\ud800', '😀', 'é'),
})
const message = fc
  .tuple(content, fc.constantFrom('user', 'system'), fc.boolean())
  .map(([text, role, first]) => (first ? { role, content: text } : { content: text, role }))

test('the texts of the messages are found in either order of the members', () => {
  fc.assert(
    fc.property(fc.array(message), (messages) => {
      const json = JSON.stringify(messages)
      const found = [...messageTexts(json)].map(({ from, to }) => JSON.parse(`"${json.slice(from, to)}"`))
      const written = messages.map(({ content }) => content)
      assert.deepEqual(found, written)
    }),
  )
})

test('slices are JSON texts that give the whole when they are joined', () => {
  // The text is long enough for several slices. Escapes and surrogate pairs repeat throughout, so that some cuts would fall
  // into them.
  const long = fc.tuple(content, fc.integer({ min: 0, max: 9 })).map(([text, shift]) => {
    return `${'x'.repeat(shift)}${`${text}\u0000\\"😀`.repeat(6_000)}`
  })
  fc.assert(
    fc.property(long, (text) => {
      const slices = [...textSlices(JSON.stringify([{ role: 'user', content: text }]))]
      assert.ok(slices.length > 1)
      const texts = slices.flat().map((json) => JSON.parse(`"${json}"`))
      assert.equal(texts.join(''), text)
    }),
    { numRuns: 50 },
  )
})

test('a sample takes pieces of the whole, each a JSON text', () => {
  const messages = [
    { role: 'user', content: '\u0000"\\😀é'.repeat(20_000) },
    { role: 'user', content: '' },
    { role: 'user', content: 'b'.repeat(100_000) },
  ]
  const json = JSON.stringify(messages)
  const { jsonTexts, part } = textSample(json, 16, 200)
  const sample = jsonTexts.map((text) => JSON.parse(`"${text}"`) as string)
  assert.ok(Math.abs(part - jsonTexts.join('').length / json.length) < 0.001, `${part}`)
  assert.equal(sample.length, 16)
  assert.ok(sample.every((text) => text.length > 30 && text.length < 210))
  assert.ok(sample.some((text) => text.startsWith('b')) && sample.some((text) => text.includes('😀')))
  assert.deepEqual(textSample('[]', 16, 200), { jsonTexts: [], part: 1 })
})

test('a text of nothing but backslashes is cut in one pass', () => {
  // If each cut searched back to the beginning, this would take minutes.
  const text = '\\'.repeat(8_000_000)
  const json = JSON.stringify([{ role: 'user', content: text }])
  let characters = 0
  for (const [slice = ''] of textSlices(json)) {
    characters += slice.length
    assert.equal(slice.length % 2, 0)
  }
  assert.equal(characters, 2 * text.length)
  assert.ok(textSample(json, 4096, 200).jsonTexts.every((piece) => piece.length % 2 === 0))
})
