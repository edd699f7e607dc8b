import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { eventually } from '../../test/support/eventually.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import { PipelinedRequests } from './pipelined-requests.ts'

const TIMEOUT_MS = 5000

interface Handled {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

const until = (isTrue: () => boolean) => eventually(isTrue, (is) => is)

/** The server holds its requests until the test answers them. */
async function start(t: TestContext, { shareBytes = 1_000_000 } = {}) {
  const share = new ByteShare(shareBytes)
  const clock = new FakeClock()
  const rejected: string[] = []
  const pipelined = new PipelinedRequests({
    share,
    clock,
    requestTimeoutMs: TIMEOUT_MS,
    onRejected: (name, decision) => void rejected.push(`${name}: ${decision}`),
  })
  const handled: Handled[] = []
  const server = createServer((request, response) => void handled.push({ request, response }))
  const errors: string[] = []
  const fail = (error: Error & { code?: string }) => server.emit('clientError', error, serverSocket)
  server.on('clientError', (error: Error & { code?: string }, socket: Socket) => {
    errors.push(error.code ?? '')
    pipelined.answerBroken(socket, error, () => socket.end('broken'))
  })
  pipelined.guard(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  const accepted = once(server, 'connection')
  const client = connect(port, '127.0.0.1').setEncoding('utf8')
  const [serverSocket] = await accepted
  t.after(() => {
    client.destroy()
    server.close()
  })
  let text = ''
  client.on('data', (piece: string) => {
    text += piece
  })
  client.on('error', () => {})
  const closed = new Promise<void>((resolve) => client.once('close', () => resolve()))
  const handles = (count: number) => until(() => handled.length === count)
  const received = (pattern: RegExp) => until(() => pattern.test(text))
  const answer = (index: number, headers = {}) => {
    const { request, response } = handled[index] ?? assert.fail(`request ${index} was not handled`)
    request.resume()
    response.writeHead(200, { 'content-length': String(request.url?.length), ...headers }).end(request.url)
  }
  const waits = async () => {
    await until(() => share.held.total > 0)
    return share.held.total
  }
  const place = { share, clock, rejected, handled, errors, fail, serverSocket, client, closed }
  return { ...place, handles, received, answer, waits, text: () => text }
}

const get = (path: string, headers = '') => `GET /${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`
const post = (path: string, length: number, body: string) =>
  `POST /${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n${body}`
const CHUNKED = 'POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n'
const urls = (handled: readonly Handled[]) => handled.map(({ request }) => request.url)

test('a request is handled when the response before it was written, and its connection is not read meanwhile', async (t) => {
  const { share, handled, serverSocket, client, handles, received, answer, waits } = await start(t)
  client.write(get('a') + get('b') + post('c', 3, 'abc'))
  await handles(1)
  await waits()
  assert.equal(serverSocket.isPaused(), true)
  answer(0)
  await handles(2)
  assert.equal(serverSocket.isPaused(), true)
  answer(1)
  await handles(3)
  assert.equal(serverSocket.isPaused(), false)
  assert.equal(share.held.total, 0)
  answer(2)
  await received(/\/a.*\/b.*\/c$/s)
  client.write(get('d'))
  await handles(4)
  answer(3)
  await received(/\/d$/)
  assert.deepEqual(urls(handled), ['/a', '/b', '/c', '/d'])
})

test('a connection is not read while requests wait, however many of them arrived in one piece', async (t) => {
  for (const count of [1, 2, 3, 4]) {
    const { share, serverSocket, client, handles, answer, waits } = await start(t)
    // Node calls `resume` at the end of each body. The end of the last body is missing here.
    client.write(get('a') + post('b', 3, 'abc').repeat(count - 1) + post('b', 3, 'a'))
    await handles(1)
    await waits()
    const { bytesRead } = serverSocket
    const { total } = share.held
    client.write(`bc${post('c', 3, 'abc').repeat(9)}`)
    // When the server has read another connection, it would also have read the bytes of the first one.
    await roundTrip(serverSocket)
    assert.deepEqual([serverSocket.bytesRead, share.held.total], [bytesRead, total], `${count} wait`)
    for (let index = 0; index <= count + 9; index++) {
      await handles(index + 1)
      answer(index)
    }
  }
})

async function roundTrip(serverSocket: Socket): Promise<void> {
  const { localPort = 0 } = serverSocket
  const socket = connect(localPort, '127.0.0.1').resume()
  socket.end('not HTTP')
  await once(socket, 'close')
}

test('a response that Node has paused for does not resume a connection whose requests wait', async (t) => {
  const { handled, serverSocket, client, handles, waits, answer } = await start(t)
  client.write(get('a') + get('b'))
  await handles(1)
  await waits()
  serverSocket.resume()
  await once(serverSocket, 'resume')
  assert.equal(serverSocket.isPaused(), true)
  answer(0)
  await handles(2)
  assert.equal(serverSocket.isPaused(), false)
  assert.equal(handled.length, 2)
})

test('requests that wait count by their headers until they are handled or the connection closes', async (t) => {
  const { share, serverSocket, client, handles, answer, waits } = await start(t)
  client.write(get('a') + get('b') + get('c', 'x: y\r\n'.repeat(100)))
  await handles(1)
  const bytes = await waits()
  assert.equal(bytes, 2 * 2048 + 102 * 64)
  answer(0)
  await handles(2)
  assert.equal(share.held.total, 2048 + 101 * 64)
  client.resetAndDestroy()
  // The server only detects the closed connection when it writes.
  answer(1)
  await until(() => share.held.total === 0)
  assert.equal(serverSocket.writable, false)
})

test('requests that do not fit into the share are not read, and those before them are answered', async (t) => {
  const { share, rejected, handled, errors, client, closed, handles, answer, waits, text } = await start(t, {
    shareBytes: 100_000,
  })
  client.write(get('a').repeat(1000))
  await handles(1)
  const bytes = await waits()
  await until(() => errors.length === 2)
  assert.deepEqual(rejected, ['requests: over part'])
  // The server stops Node's parser, which then reports the second error.
  assert.deepEqual(errors, ['TOO_MANY_WAIT', 'HPE_CB_HEADERS_COMPLETE'])
  const fitting = bytes / (2048 + 64)
  assert.ok(fitting >= 2 && fitting < 50, `${fitting} wait`)
  for (let index = 0; index <= fitting; index++) {
    await handles(index + 1)
    answer(index)
  }
  await closed
  assert.match(text(), /\/abroken$/)
  assert.deepEqual([handled.length, share.held.total], [fitting + 1, 0])
})

test('requests behind a response that closes the connection are not handled', async (t) => {
  const { share, handled, client, closed, handles, answer, waits, text } = await start(t)
  client.write(get('a') + get('b') + get('c'))
  await handles(1)
  await waits()
  answer(0, { connection: 'close' })
  await closed
  assert.match(text(), /\/a$/)
  assert.deepEqual([urls(handled), share.held.total], [['/a'], 0])
})

test('a client that half-closes its connection leaves nothing behind', async (t) => {
  const { share, client, closed, handles, waits, answer, text } = await start(t)
  client.end(get('a') + get('b') + get('c'))
  await handles(1)
  await waits()
  answer(0)
  await handles(2)
  answer(1)
  await closed
  assert.match(text(), /\/a.*\/b$/s)
  assert.equal(share.held.total, 0)
})

test('what is not HTTP is answered after the responses to the requests before it', async (t) => {
  const { share, handled, client, closed, handles, errors, answer, waits, text } = await start(t)
  client.write(`${get('a')}${get('b')}${CHUNKED}no chunk\r\n`)
  await handles(1)
  await waits()
  await until(() => errors.length > 0)
  answer(0)
  await handles(2)
  answer(1)
  await closed
  assert.match(text(), /\/a.*\/bbroken$/s)
  assert.deepEqual([urls(handled), share.held.total], [['/a', '/b'], 0])
})

test('an error in the body of the request being handled is answered at once', async (t) => {
  const { client, closed, handles, text } = await start(t)
  client.write(CHUNKED)
  await handles(1)
  client.write('no chunk\r\n')
  await closed
  assert.equal(text(), 'broken')
})

const TIMED_OUT = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })

test('a request that was not read in time because it waited has its time again', async (t) => {
  const { clock, fail, client, handles, received, answer, waits } = await start(t)
  client.write(get('a') + post('b', 5, 'ab'))
  await handles(1)
  await waits()
  fail(TIMED_OUT)
  answer(0)
  await handles(2)
  clock.advance(TIMEOUT_MS - 1)
  client.write('cde')
  answer(1)
  await received(/\/a.*\/b$/s)
  clock.advance(TIMEOUT_MS)
  client.write(get('c'))
  await handles(3)
  answer(2)
  await received(/\/c$/s)
})

for (const [what, sent] of Object.entries({
  'of its body': post('c', 5, 'ab'),
  'of its headers': 'GET /c HTTP/1.1\r\n',
})) {
  test(`a request that is still not received then, in the middle ${what}, is answered like any other that is too slow`, async (t) => {
    const { clock, fail, client, closed, handles, answer, waits, text } = await start(t)
    client.write(get('a') + get('b') + sent)
    await handles(1)
    await waits()
    fail(TIMED_OUT)
    answer(0)
    await handles(2)
    answer(1)
    if (sent.startsWith('POST')) await handles(3)
    await until(() => text().endsWith('/b'))
    clock.advance(TIMEOUT_MS)
    await closed
    assert.match(text(), /\/a.*\/bbroken$/s)
  })
}
