import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import { Pieces } from './pieces.ts'

async function all(whole: string | Buffer): Promise<{ text: string; largest: number }> {
  const received: Buffer[] = []
  for await (const piece of new Pieces(whole)) received.push(piece)
  return { text: Buffer.concat(received).toString(), largest: Math.max(0, ...received.map((p) => p.length)) }
}

test('a text arrives whole, in small pieces, and no character is cut', async () => {
  for (const [unit, count] of [
    ['x', 200_000],
    ['€', 100_001],
    ['𝒳', 50_000],
    ['a𝒳', 70_001],
  ] as const) {
    for (const start of ['', '.']) {
      const text = start + unit.repeat(count)
      const { text: received, largest } = await all(text)
      assert.equal(received, text)
      assert.ok(largest <= 3 * 65_536 + 4)
    }
  }
  assert.equal((await all('')).text, '')
})

test('a buffer is sent in views of itself', async () => {
  const whole = Buffer.from('x'.repeat(300_000))
  for await (const piece of new Pieces(whole)) assert.equal(piece.buffer, whole.buffer)
  assert.equal((await all(whole)).text, whole.toString())
})

test('the end is reported once: when all is handed on, and when the reader goes away', async () => {
  let ended = 0
  await pipeline(new Pieces('x'.repeat(100_000), () => ended++), new PassThrough().resume())
  assert.equal(ended, 1)
  const abandoned = new Pieces('x'.repeat(100_000), () => ended++)
  abandoned.destroy()
  await new Promise((resolve) => abandoned.once('close', resolve))
  assert.equal(ended, 2)
})
