import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { FakeClock } from '../../test/fake-clock.ts'
import { startPoster } from '../../test/support/callback-poster.ts'
import { openSocket } from './guarded-connect.ts'
import { KEPT_BODY_BYTES, MAX_ANSWER_BYTES, MAX_RETRY_AFTER_MS } from './post.ts'

test('SPEC 6.2: the POST contains the caller’s headers, the standard ones and the unchanged body', async (t) => {
  const { receiver, post } = await startPoster(t)
  const body = '{"text":"größer 😀","n":12345678901234567890}'
  const result = await post({
    url: `${receiver.url}/a%20b?c=d#e`,
    headers: { 'X-Order-Id': '17', 'webhook-id': 'w' },
    body,
  })
  assert.ok(result.kind === 'answered')
  assert.deepEqual(
    { ...result, ms: 0 },
    { kind: 'answered', status: 200, retryAfterMs: null, bodyStart: '', ms: 0 },
  )
  const [request] = await receiver.received(1)
  assert.equal(request?.method, 'POST')
  assert.equal(request.path, '/a%20b?c=d')
  assert.equal(request.body, body)
  assert.ok(request.rawHeaders.includes('X-Order-Id'))
  assert.deepEqual(
    { ...request.headers },
    {
      host: `127.0.0.1:${receiver.port}`,
      connection: 'keep-alive',
      'x-order-id': '17',
      'webhook-id': 'w',
      'content-type': 'application/json',
      'user-agent': 'Parley',
      'content-length': String(Buffer.byteLength(body)),
    },
  )
})

test('a caller’s own Content-Type and User-Agent replace ours', async (t) => {
  const { receiver, post } = await startPoster(t)
  await post({ headers: { 'Content-Type': 'application/json; charset=utf-8', 'USER-AGENT': 'mine' } })
  const [request] = await receiver.received(1)
  assert.equal(request?.headers['content-type'], 'application/json; charset=utf-8')
  assert.equal(request.headers['user-agent'], 'mine')
  const names = request.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())
  assert.equal(new Set(names).size, names.length)
})

test('of a header that is given in two spellings, only the last is sent', async (t) => {
  const { receiver, post } = await startPoster(t)
  await post({ headers: { Traceparent: 'a', 'Content-Type': 'b', traceparent: 'c', 'content-type': 'd' } })
  const { rawHeaders = [] } = receiver.requests[0] ?? {}
  assert.deepEqual(
    rawHeaders.filter((_, index) =>
      /^(traceparent|content-type)$/i.test(rawHeaders[index - (index % 2)] ?? ''),
    ),
    ['traceparent', 'c', 'content-type', 'd'],
  )
})

test('any status is an answer, with the start of its body', async (t) => {
  const { receiver, answer } = await startPoster(t)
  for (const status of [200, 201, 204, 301, 400, 404, 410, 429, 500, 503]) {
    const body = status === 204 ? '' : `it was ${status}`
    receiver.script({ kind: 'answer', status, body })
    const result = await answer()
    assert.equal(result.status, status)
    assert.equal(result.bodyStart, body)
  }
})

test('Retry-After is read as seconds or as a date, and limited to a day', async (t) => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1))
  const { receiver, answer } = await startPoster(t, { clock })
  const cases: readonly (readonly [string, number | null])[] = [
    ['0', 0],
    ['120', 120_000],
    ['86401', MAX_RETRY_AFTER_MS],
    ['9'.repeat(400), MAX_RETRY_AFTER_MS],
    ['Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['Fri, 01 Jan 2027 00:00:00 GMT', MAX_RETRY_AFTER_MS],
    ['soon', null],
    ['-1', null],
    ['1.5', null],
    ['2026-01-01', null],
  ]
  for (const [text, expected] of cases) {
    receiver.script({ kind: 'answer', status: 503, headers: { 'retry-after': text } })
    assert.equal((await answer()).retryAfterMs, expected, text)
  }
})

test('the first KiB of a response is kept as text, without half a character and without NUL', async (t) => {
  const { receiver, answer } = await startPoster(t)
  const start1023 = 'x'.repeat(KEPT_BODY_BYTES - 1)
  for (const [body, kept] of [
    [`${start1023}yz`, `${start1023}y`],
    [`${start1023}ü`, start1023],
    ['a\0b', 'a\ufffdb'],
    [Buffer.from([0x61, 0xff, 0x62]), 'a\ufffdb'],
  ] as const) {
    receiver.script({ kind: 'answer', body })
    assert.equal((await answer()).bodyStart, kept)
  }
})

test('a huge response is read up to the limit and what is already in transit', async (t) => {
  const sockets: Socket[] = []
  const { receiver, openSockets, post, answer } = await startPoster(t, {
    open: (address, port) => {
      const socket = openSocket(address, port)
      sockets.push(socket)
      return socket
    },
  })
  receiver.script({ kind: 'huge', bytes: 100_000_000 }, { kind: 'huge', bytes: MAX_ANSWER_BYTES })
  const result = await answer()
  assert.equal(result.status, 200)
  assert.equal(result.bodyStart, 'x'.repeat(KEPT_BODY_BYTES))
  await receiver.allClosed()
  const bytesRead = sockets[0]?.bytesRead ?? Number.POSITIVE_INFINITY
  assert.ok(bytesRead < 5 * MAX_ANSWER_BYTES, `${bytesRead} bytes read`)
  await post()
  assert.equal(openSockets(), 1, 'after a response of exactly the limit the connection is reused')
})

test('a compressed response is not decompressed', async (t) => {
  const { receiver, answer } = await startPoster(t)
  const body = gzipSync(Buffer.alloc(10_000_000))
  assert.ok(body.length < MAX_ANSWER_BYTES)
  receiver.script({ kind: 'answer', headers: { 'content-encoding': 'gzip' }, body })
  const result = await answer()
  assert.equal(result.bodyStart.codePointAt(0), 0x1f)
})

test('localhost is loopback as far as that is allowed, without a DNS lookup', async (t) => {
  const { receiver, post } = await startPoster(t, { resolve: () => Promise.reject(new Error('looked up')) })
  for (const host of ['localhost', 'app.localhost', 'LOCALHOST.']) {
    const result = await post({ url: `http://${host}:${receiver.port}/` })
    assert.equal(result.kind, 'answered', host)
  }
})

test('a name is resolved, and its Host header is the name', async (t) => {
  const { receiver, answer } = await startPoster(t, { resolve: async () => ['127.0.0.1'] })
  await answer({ url: `http://hooks.example.com.:${receiver.port}/` })
  assert.equal(receiver.requests[0]?.headers.host, `hooks.example.com:${receiver.port}`)
})

test('the current settings apply at delivery, even to a URL that was accepted earlier', async (t) => {
  const { receiver, post } = await startPoster(t, { rules: { allow: [], httpsOnly: true } })
  const messages = []
  for (const url of [receiver.url, 'https://127.0.0.1/', 'no URL']) {
    const result = await post({ url })
    assert.ok(result.kind === 'refused')
    messages.push(result.message)
  }
  assert.match(messages[0] ?? '', /https_only/)
  assert.match(messages[1] ?? '', /allow_networks/)
  assert.match(messages[2] ?? '', /absolute https URL/)
  assert.equal(receiver.connections(), 0)
})

test('a header that cannot be sent is a failure, not an exception', async (t) => {
  const { receiver, failure } = await startPoster(t)
  for (const headers of [{ 'X-A': 'a\r\nHost: b' }, { 'X A': 'a' }, { 'Transfer-Encoding': 'chunked' }]) {
    await failure({ headers })
  }
  assert.equal(receiver.requests.length, 0)
  await receiver.allClosed()
})
