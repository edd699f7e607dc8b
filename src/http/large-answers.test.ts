import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import fastify from 'fastify'
import { FakeClock } from '../../test/fake-clock.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import { LargeAnswers, Pieces } from './large-answers.ts'

test('a response that never begins frees its bytes when its client hangs up', async (t) => {
  const share = new ByteShare(16 * 1024 * 1024)
  const answers = new LargeAnswers({ share, clock: new FakeClock(), onRejected: () => {} })
  const app = fastify()
  t.after(() => app.close())
  app.decorateRequest('answerBytes', 0)
  app.addHook('onSend', (request, reply, payload, done) => answers.send(request, reply, payload, done))
  // The response waits, as behind an earlier one on its connection. Some versions of Node do not end such a response when the
  // connection closes.
  const { promise: made, resolve } = Promise.withResolvers<Socket>()
  app.addHook('onSend', ({ raw }, _reply, _payload, _done) => resolve(raw.socket))
  app.get('/', (_request, reply) => reply.send('x'.repeat(300_000)))
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const client = connect(Number(url.port), url.hostname)
  client.write('GET / HTTP/1.1\r\nhost: parley\r\n\r\n')
  const socket = await made
  assert.ok(share.held.total > 300_000)
  const closed = once(socket, 'close')
  client.destroy()
  await closed
  assert.equal(share.held.total, 0)
})

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
