import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import fastify from 'fastify'
import { Listeners } from './listeners.ts'
import { ConnectionLimits } from './load-shedding/connection-limits.ts'

/** Two addresses of this machine, like the two that `localhost` often has. */
const ADDRESSES = ['127.0.0.1', process.platform === 'linux' ? '127.0.0.2' : '::1']
const REQUEST = 'GET / HTTP/1.1\r\nhost: parley\r\n\r\n'

/** `answerOf` opens a connection, sends a text, and resolves with the first data received. */
async function start(
  t: TestContext,
  connections: number,
  addresses: readonly string[] = ADDRESSES,
  host = 'localhost',
  perAddress = 9,
) {
  const app = fastify({ clientErrorHandler: (_error, socket) => socket.end('broken') })
  app.get('/', (_request, reply) => reply.send('served'))
  const options = { total: connections, perAddress, trustProxy: false, onRejected: () => {} }
  const limits = new ConnectionLimits(options)
  limits.guard(app.server)
  const listeners = new Listeners(app)
  t.after(() => listeners.close())
  const url = await listeners.listen({ host, port: 0, addresses: async () => addresses })
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  const answerOf = (address: string | undefined, text: string) => {
    const isPath = address?.includes('/') === true
    const port = Number(new URL(url).port)
    const socket = (isPath ? connect(address) : connect(port, address)).setEncoding('utf8')
    sockets.push(socket)
    socket.write(text)
    return new Promise<string>((resolve, reject) => {
      socket.once('data', (data) => resolve(String(data)))
      socket.once('error', reject)
    })
  }
  return { url, limits, listeners, sockets, answerOf }
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

const HAS_IPV6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
)

test('::1 is written with or without brackets, and :: is all addresses', { skip: !HAS_IPV6 }, async (t) => {
  for (const [host, reached] of [
    ['[::1]', ['::1']],
    ['::1', ['::1']],
    ['::', ['::1', '127.0.0.1']],
  ] as const) {
    const { url, answerOf } = await start(t, 9, [], host)
    assert.match(url, /^http:\/\/\[::1\]:\d+$/)
    for (const address of reached) assert.match(await answerOf(address, REQUEST), /^HTTP\/1\.1 200 /)
  }
})

async function socketPath(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-socket-'))
  t.after(() => rm(folder, { recursive: true }))
  return join(folder, 'parley.sock')
}

const onWindows = process.platform === 'win32'

test('a Unix socket is listened on, open to owner and group, and removed at the stop', {
  skip: onWindows,
}, async (t) => {
  const path = await socketPath(t)
  // Connections of a Unix socket have no address, so the limit of one per address does not apply to these three.
  const { url, listeners, limits, answerOf } = await start(t, 9, [], `unix:${path}`, 1)
  assert.equal(url, `unix:${path}`)
  assert.equal((await stat(path)).mode & 0o777, 0o660)
  for (let opened = 1; opened <= 3; opened++) {
    assert.match(await answerOf(path, REQUEST), /^HTTP\/1\.1 200 /)
    assert.equal(limits.open, opened)
  }
  await listeners.close()
  await assert.rejects(stat(path), { code: 'ENOENT' })
})

test('the socket file of a server that was killed is replaced, one in use and any other file are not', {
  skip: onWindows,
}, async (t) => {
  const path = await socketPath(t)
  const script = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  await assert.rejects(promisify(execFile)(process.execPath, ['-e', script]), { signal: 'SIGKILL' })
  assert.ok((await stat(path)).isSocket())
  const first = await start(t, 9, [], `unix:${path}`)
  assert.match(await first.answerOf(path, REQUEST), /^HTTP\/1\.1 200 /)

  await assert.rejects(start(t, 9, [], `unix:${path}`), { code: 'EADDRINUSE', message: /another program/ })
  assert.match(await first.answerOf(path, REQUEST), /^HTTP\/1\.1 200 /)

  const file = `${path}.txt`
  await writeFile(file, 'mine')
  await assert.rejects(start(t, 9, [], `unix:${file}`), { code: 'EADDRINUSE', message: /not a socket/ })
  assert.equal(await readFile(file, 'utf8'), 'mine')
  await assert.rejects(start(t, 9, [], `unix:${path}/none`), { code: 'ENOTDIR' })
})
