import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import fastify from 'fastify'
import { Listeners } from './listeners.ts'
import { ConnectionLimits } from './load-shedding/connection-limits.ts'

/** Two addresses of this machine, as `localhost` has where it also stands for `::1`. */
const ADDRESSES = ['127.0.0.1', process.platform === 'linux' ? '127.0.0.2' : '::1']
const REQUEST = 'GET / HTTP/1.1\r\nhost: parley\r\n\r\n'

/** A server that accepts so many connections, and what opens one: resolves with its first bytes once `text` is sent. */
async function start(t: TestContext, connections: number, addresses: readonly string[] = ADDRESSES) {
  const app = fastify({ clientErrorHandler: (_error, socket) => socket.end('broken') })
  app.get('/', (_request, reply) => reply.send('served'))
  const limits = new ConnectionLimits({
    total: connections,
    perAddress: 9,
    trustProxy: false,
    onRejected: () => {},
  })
  limits.guard(app.server)
  const listeners = new Listeners(app)
  t.after(() => listeners.close())
  const url = await listeners.listen({ host: 'localhost', port: 0, addresses: async () => addresses })
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  const answerOf = (address: string | undefined, text: string) => {
    const socket = connect(Number(new URL(url).port), address).setEncoding('utf8')
    sockets.push(socket)
    socket.write(text)
    return new Promise<string>((resolve, reject) => {
      socket.once('data', (data) => resolve(String(data)))
      socket.once('error', reject)
    })
  }
  return { limits, listeners, sockets, answerOf }
}

test('localhost is listened on at each of its addresses, and one limit applies to all of them', async (t) => {
  const { limits, answerOf } = await start(t, 2)
  for (const address of ADDRESSES) assert.match(await answerOf(address, REQUEST), /^HTTP\/1\.1 200 /)
  assert.equal(limits.open, 2)
  for (const address of ADDRESSES) {
    assert.match(await answerOf(address, ''), /^HTTP\/1\.1 503 .*limits\.connections/s)
  }
})

test('a broken request gets the same answer at each address', async (t) => {
  const { answerOf } = await start(t, 9)
  for (const address of ADDRESSES) assert.equal(await answerOf(address, 'no request\r\n\r\n'), 'broken')
})

test('closing ends idle connections at each address, and accepts no more', async (t) => {
  const { listeners, sockets, answerOf } = await start(t, 9)
  for (const address of ADDRESSES) await answerOf(address, REQUEST)
  const closed = sockets.map((socket) => once(socket, 'close'))
  await listeners.close()
  await Promise.all(closed)
  for (const address of ADDRESSES) await assert.rejects(answerOf(address, REQUEST), { code: 'ECONNREFUSED' })
})

test('an address that this machine does not have is left out', async (t) => {
  const { answerOf } = await start(t, 9, ['127.0.0.1', '203.0.113.1'])
  assert.match(await answerOf('127.0.0.1', REQUEST), /^HTTP\/1\.1 200 /)
})
