import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import fastify from 'fastify'
import { FakeClock } from '../../test/fake-clock.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import { LargeAnswers } from './large-answers.ts'

test('a response that never begins frees its bytes when its client hangs up', async (t) => {
  const share = new ByteShare(16 * 1024 * 1024)
  const answers = new LargeAnswers({ share, clock: new FakeClock(), onRejected: () => {} })
  const app = fastify()
  t.after(() => app.close())
  app.decorateRequest('answerBytes', 0)
  app.addHook('onSend', (request, reply, payload, done) => answers.send(request, reply, payload, done))
  // Nothing writes it: as where it waits behind another on its connection, which not every version of Node ends.
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
