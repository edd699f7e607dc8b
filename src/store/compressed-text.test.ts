/** Compressed texts are unchanged after decompression. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { decompressed, storedText, storedTextOnThread } from './compressed-text.ts'

const FROM = 1000
const prose = (length: number) => 'A sentence that is said again and again. '.repeat(length).slice(0, length)
const noise = (length: number) => randomBytes(length).toString('hex').slice(0, length)

test('texts of changing sizes, compressed one after another, come back as they were', async () => {
  for (let n = 0; n < 200; n++) {
    const length = FROM + ((n * 7919) % 300_000)
    const text = n % 3 === 0 ? noise(length) : prose(length)
    for (const stored of [storedText(text, FROM), await storedTextOnThread(text, FROM)]) {
      assert.equal(stored.plain, null)
      assert.equal(stored.bytes, Buffer.byteLength(text))
      assert.ok((stored.compressed?.length ?? 0) < length)
      assert.equal(decompressed(stored.compressed), text)
      assert.equal(decompressed(`zstd:${Buffer.from(stored.compressed ?? []).toString('base64')}`), text)
    }
  }
})

test('a short text and none are stored as they are', () => {
  for (const text of [prose(FROM - 1), '', null]) {
    assert.deepEqual(storedText(text, FROM), { plain: text, compressed: null, bytes: null })
  }
  assert.equal(decompressed('["a JSON text"]'), null)
  assert.equal(decompressed(null), null)
})

test('the size from which a text is compressed is in bytes', () => {
  const short = '語'.repeat(333)
  assert.equal(storedText(short, FROM).plain, short)
  const { plain, bytes } = storedText(`${short}語`, FROM)
  assert.deepEqual([plain, bytes], [null, 1002])
})

test('a damaged text is an error', () => {
  const { compressed } = storedText(prose(5000), FROM)
  assert.throws(() => decompressed(compressed?.subarray(0, 20)))
})
