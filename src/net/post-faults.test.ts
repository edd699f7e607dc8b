import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { startPoster } from '../../test/support/callback-poster.ts'
import { MAX_ADDRESSES_TRIED, openSocket } from './guarded-connect.ts'
import { CONNECT_MS } from './post.ts'

/** Resolves when the headers of a response have arrived in this process. */
function answerBegun(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const seen = () => {
    unsubscribe('undici:request:headers', seen)
    resolve()
  }
  subscribe('undici:request:headers', seen)
  return promise
}

test('a POST to a receiver that stalls fails at the deadline, and its connection is closed', async (t) => {
  const clock = new FakeClock()
  const { receiver, post } = await startPoster(t, { clock })
  receiver.script({ kind: 'stall' })
  let ended = false
  const posted = post().finally(() => {
    ended = true
  })
  await receiver.received(1)
  clock.advance(14_999)
  await new Promise(setImmediate)
  assert.equal(ended, false)
  clock.advance(1)
  assert.deepEqual(await posted, { kind: 'failed', message: 'no response within 15 s', ms: 15_000 })
  await receiver.allClosed()
})

test('a response that stalls or drips after its status keeps the status, and ends at the deadline', async (t) => {
  const clock = new FakeClock()
  const { receiver, post } = await startPoster(t, { clock })
  receiver.script({ kind: 'stall', afterHeaders: true }, { kind: 'drip', everyMs: 1 })
  for (const _ of ['stall', 'drip']) {
    const begun = answerBegun()
    const posted = post()
    await begun
    clock.advance(15_000)
    const result = await posted
    assert.ok(result.kind === 'answered')
    assert.equal(result.status, 200)
    assert.equal(result.ms, 15_000)
    await receiver.allClosed()
  }
})

test('a POST to a receiver that does not read a large body fails at the deadline', async (t) => {
  const clock = new FakeClock()
  const receiver = createServer({ pauseOnConnect: true })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const address = receiver.address()
  assert.ok(typeof address === 'object' && address !== null)
  const { post } = await startPoster(t, { clock })
  const posted = post({ url: `http://127.0.0.1:${address.port}/`, body: 'x'.repeat(20_000_000) })
  const [socket]: Socket[] = await once(receiver, 'connection')
  // The end of the connection is only emitted if the socket is being read.
  socket?.on('error', () => {})
  await new Promise(setImmediate)
  clock.advance(15_000)
  assert.equal((await posted).kind, 'failed')
  socket?.resume()
  if (socket !== undefined && !socket.closed) await once(socket, 'close')
  receiver.close()
})

test('a connection reset before the response is a failure, and after its status an answer', async (t) => {
  const { receiver, post } = await startPoster(t)
  receiver.script({ kind: 'reset', when: 'before' }, { kind: 'reset', when: 'middle' })
  const first = await post()
  assert.ok(first.kind === 'failed')
  assert.equal(first.message, 'the receiver closed the connection before it responded')
  assert.equal(receiver.requests.length, 1, 'a failure on a new connection is not retried')
  const second = await post()
  assert.ok(second.kind === 'answered')
  assert.equal(second.status, 200)
  assert.equal(second.bodyStart, 'the beginning')
  await receiver.allClosed()
})

test('an informational response is not the answer', async (t) => {
  const { receiver, post } = await startPoster(t)
  const earlyHints = 'HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n'
  receiver.script({ kind: 'raw', text: earlyHints })
  const closed = await post()
  assert.ok(closed.kind === 'failed')
  assert.equal(closed.message, 'the receiver closed the connection before it responded')
  receiver.script({ kind: 'raw', text: `${earlyHints}HTTP/1.1 204 No Content\r\n\r\n` })
  const answered = await post()
  assert.ok(answered.kind === 'answered')
  assert.equal(answered.status, 204)
})

test('a response that is not HTTP is a failure', async (t) => {
  const { receiver, post } = await startPoster(t)
  for (const text of ['', 'SSH-2.0-OpenSSH_9.9\r\n', 'HTTP/1.1 2x0 OK\r\n\r\n', 'HTTP/2 200 OK\r\n\r\n']) {
    receiver.script({ kind: 'raw', text })
    const result = await post()
    assert.ok(result.kind === 'failed', text)
    assert.match(result.message, text === '' ? /closed the connection/ : /did not respond with HTTP\/1\.1:/)
  }
  receiver.script({ kind: 'raw', text: `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}\r\n\r\n` })
  const result = await post()
  assert.ok(result.kind === 'failed')
  assert.match(result.message, /Headers Overflow/)
  receiver.script({
    kind: 'raw',
    text: 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
  })
  assert.equal((await post()).kind, 'failed')
  await receiver.allClosed()
})

test('a closed port, an unknown name and an empty DNS answer are failures that name the cause', async (t) => {
  const { post } = await startPoster(t, {
    resolve: async (name) => {
      if (name === 'empty.example.com') return []
      throw Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' })
    },
  })
  const messages = []
  // No process listens on port 1.
  for (const url of ['http://127.0.0.1:1/', 'http://none.example.com/', 'http://empty.example.com/']) {
    const result = await post({ url })
    assert.ok(result.kind === 'failed')
    messages.push(result.message)
  }
  assert.deepEqual(messages, [
    'no connection to 127.0.0.1 port 1: ECONNREFUSED',
    'none.example.com has no address',
    'empty.example.com does not resolve to an address that callbacks may be sent to',
  ])
})

test('a DNS lookup that is not answered ends at the connect timeout', async (t) => {
  const clock = new FakeClock()
  const lookup = Promise.withResolvers<AbortSignal>()
  const { post } = await startPoster(t, {
    clock,
    resolve: (_name, signal) => {
      lookup.resolve(signal)
      return new Promise(() => {})
    },
  })
  const posted = post({ url: 'http://hooks.example.com/' })
  const signal = await lookup.promise
  clock.advance(CONNECT_MS)
  assert.deepEqual(await posted, {
    kind: 'failed',
    message: 'no connection to hooks.example.com within 5 s',
    ms: CONNECT_MS,
  })
  assert.ok(signal.aborted, 'the resolver is aborted')
})

test('a dead address leaves time for the next one', async (t) => {
  const clock = new FakeClock()
  const dead: Socket[] = []
  const tried = Promise.withResolvers<void>()
  const { receiver, post } = await startPoster(t, {
    clock,
    resolve: async () => ['127.0.0.2', '127.0.0.1'],
    open: (address, port) => {
      if (address === '127.0.0.1') return openSocket(address, port)
      const socket = new Socket()
      dead.push(socket)
      tried.resolve()
      return socket
    },
  })
  const posted = post({ url: `http://hooks.example.com:${receiver.port}/` })
  await tried.promise
  await clock.timerSet((ms) => ms === CONNECT_MS / 2)
  clock.advance(CONNECT_MS / 2)
  assert.equal((await posted).kind, 'answered')
  assert.equal(dead.length, 1)
  assert.ok(dead[0]?.destroyed)
})

test('a POST to a host whose addresses are all dead fails at the connect timeout', async (t) => {
  const clock = new FakeClock()
  const dead: Socket[] = []
  const { post } = await startPoster(t, {
    clock,
    resolve: async () => Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 1}`),
    open: () => {
      const socket = new Socket()
      dead.push(socket)
      return socket
    },
  })
  let ended = false
  const posted = post({ url: 'http://hooks.example.com/' }).finally(() => {
    ended = true
  })
  while (!ended) {
    await new Promise(setImmediate)
    clock.advance(50)
  }
  const result = await posted
  assert.ok(result.kind === 'failed')
  assert.match(
    result.message,
    /^no connection to (hooks\.example\.com within 5 s|127\.0\.0\.1 port 80: no answer in time; )/,
  )
  assert.ok(result.ms <= CONNECT_MS + 50, `${result.ms} ms`)
  assert.equal(dead.length, MAX_ADDRESSES_TRIED)
  assert.ok(dead.every((socket) => socket.destroyed))
})

test('a POST that is aborted ends at once in every phase', async (t) => {
  const { receiver, post } = await startPoster(t, { resolve: () => new Promise(() => {}) })
  receiver.script({ kind: 'stall' })
  for (const url of [receiver.url, 'http://hooks.example.com/']) {
    const controller = new AbortController()
    const posted = post({ url, signal: controller.signal })
    if (url === receiver.url) await receiver.received(1)
    controller.abort(new Error('aborted'))
    const result = await posted
    assert.ok(result.kind === 'failed')
    assert.equal(result.message, 'aborted')
  }
  const aborted = AbortSignal.abort(new Error('aborted before'))
  for (const idle of [false, true]) {
    if (idle) assert.equal((await post()).kind, 'answered')
    const result = await post({ signal: aborted })
    assert.ok(result.kind === 'failed')
    assert.equal(result.message, 'aborted before')
  }
  assert.equal(receiver.requests.length, 2)
})

test('close aborts POSTs in progress, closes idle connections and rejects later POSTs', async (t) => {
  const { receiver, poster, post, openSockets } = await startPoster(t)
  await Promise.all([post(), post()])
  assert.equal(receiver.open(), 2)
  receiver.script({ kind: 'stall' })
  const posted = post()
  await receiver.received(3)
  await poster.close()
  assert.equal((await posted).kind, 'failed')
  assert.equal(openSockets(), 0)
  await receiver.allClosed()
  const late = await post()
  assert.ok(late.kind === 'failed')
  assert.equal(late.message, 'the server is stopping')
  assert.equal(receiver.requests.length, 3)
})
