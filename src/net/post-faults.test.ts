import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { startPoster } from '../../test/support/callback-poster.ts'
import { listen } from '../../test/support/listen.ts'
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
  const posted = post()
  await receiver.received(1)
  clock.advance(14_999)
  assert.equal(await Promise.race([posted, nextTurn('nothing')]), 'nothing')
  clock.advance(1)
  assert.deepEqual(await posted, { kind: 'failed', message: 'no response within 15 s', ms: 15_000 })
  await receiver.allClosed()
})

test('a response that stalls or drips after its status keeps the status, and ends at the deadline', async (t) => {
  const clock = new FakeClock()
  const { receiver, answer } = await startPoster(t, { clock })
  receiver.script({ kind: 'stall', afterHeaders: true }, { kind: 'drip', everyMs: 1 })
  for (const _ of ['stall', 'drip']) {
    const begun = answerBegun()
    const answered = answer()
    await begun
    clock.advance(15_000)
    const { status, ms } = await answered
    assert.deepEqual([status, ms], [200, 15_000])
    await receiver.allClosed()
  }
})

test('a POST to a receiver that does not read a large body fails at the deadline', async (t) => {
  const clock = new FakeClock()
  const receiver = createServer({ pauseOnConnect: true })
  const { failure } = await startPoster(t, { clock })
  const url = `http://127.0.0.1:${await listen(t, receiver)}/`
  const failed = failure({ url, body: 'x'.repeat(20_000_000) })
  const [socket]: Socket[] = await once(receiver, 'connection')
  // A socket emits its end only if it is being read.
  socket?.on('error', () => {})
  await nextTurn()
  clock.advance(15_000)
  await failed
  socket?.resume()
  if (socket !== undefined && !socket.closed) await once(socket, 'close')
})

test('a connection reset before the response is a failure, and after its status an answer', async (t) => {
  const { receiver, answer, failure } = await startPoster(t)
  receiver.script({ kind: 'reset', when: 'before' }, { kind: 'reset', when: 'middle' })
  assert.equal(await failure(), 'the receiver closed the connection before it responded')
  assert.equal(receiver.requests.length, 1, 'a failure on a new connection is not retried')
  const { status, bodyStart } = await answer()
  assert.deepEqual([status, bodyStart], [200, 'the beginning'])
  await receiver.allClosed()
})

test('an informational response is not the answer', async (t) => {
  const { receiver, answer, failure } = await startPoster(t)
  const earlyHints = 'HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n'
  receiver.script({ kind: 'raw', text: earlyHints })
  assert.equal(await failure(), 'the receiver closed the connection before it responded')
  receiver.script({ kind: 'raw', text: `${earlyHints}HTTP/1.1 204 No Content\r\n\r\n` })
  assert.equal((await answer()).status, 204)
})

test('a response that is not HTTP is a failure', async (t) => {
  const { receiver, failure } = await startPoster(t)
  for (const text of ['', 'SSH-2.0-OpenSSH_9.9\r\n', 'HTTP/1.1 2x0 OK\r\n\r\n', 'HTTP/2 200 OK\r\n\r\n']) {
    receiver.script({ kind: 'raw', text })
    assert.match(await failure(), text === '' ? /closed the connection/ : /did not respond with HTTP\/1\.1:/)
  }
  receiver.script({ kind: 'raw', text: `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}\r\n\r\n` })
  assert.match(await failure(), /Headers Overflow/)
  const switching = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'
  receiver.script({ kind: 'raw', text: switching })
  await failure()
  await receiver.allClosed()
})

test('a closed port, an unknown name and an empty DNS answer are failures that name the cause', async (t) => {
  const { failure } = await startPoster(t, {
    resolve: async (name) => {
      if (name === 'empty.example.com') return []
      throw Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' })
    },
  })
  for (const [host, message] of [
    // No process listens on port 1.
    ['127.0.0.1:1', 'no connection to 127.0.0.1 port 1: ECONNREFUSED'],
    ['none.example.com', 'none.example.com has no address'],
    ['empty.example.com', 'empty.example.com does not resolve to an address that callbacks may be sent to'],
  ] as const) {
    assert.equal(await failure({ url: `http://${host}/` }), message)
  }
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
  const message = 'no connection to hooks.example.com within 5 s'
  assert.deepEqual(await posted, { kind: 'failed', message, ms: CONNECT_MS })
  assert.ok(signal.aborted, 'the resolver is aborted')
})

test('a dead address leaves time for the next one', async (t) => {
  const clock = new FakeClock()
  const dead: Socket[] = []
  const tried = Promise.withResolvers<void>()
  const { receiver, answer } = await startPoster(t, {
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
  const answered = answer({ url: `http://hooks.example.com:${receiver.port}/` })
  await tried.promise
  await clock.timerSet((ms) => ms === CONNECT_MS / 2)
  clock.advance(CONNECT_MS / 2)
  await answered
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
    await nextTurn()
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
  const { receiver, answer, failure } = await startPoster(t, { resolve: () => new Promise(() => {}) })
  receiver.script({ kind: 'stall' })
  for (const url of [receiver.url, 'http://hooks.example.com/']) {
    const controller = new AbortController()
    const failed = failure({ url, signal: controller.signal })
    if (url === receiver.url) await receiver.received(1)
    controller.abort(new Error('aborted'))
    assert.equal(await failed, 'aborted')
  }
  const aborted = AbortSignal.abort(new Error('aborted before'))
  for (const idle of [false, true]) {
    if (idle) await answer()
    assert.equal(await failure({ signal: aborted }), 'aborted before')
  }
  assert.equal(receiver.requests.length, 2)
})

test('close aborts POSTs in progress, closes idle connections and rejects later POSTs', async (t) => {
  const { receiver, poster, openSockets, post, failure } = await startPoster(t)
  await Promise.all([post(), post()])
  assert.equal(receiver.open(), 2)
  receiver.script({ kind: 'stall' })
  const failed = failure()
  await receiver.received(3)
  await poster.close()
  await failed
  assert.equal(openSockets(), 0)
  await receiver.allClosed()
  assert.equal(await failure(), 'the server is stopping')
  assert.equal(receiver.requests.length, 3)
})
