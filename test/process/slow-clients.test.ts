/** Tests that clients that send their requests too slowly are disconnected, and that others are not affected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { LONG } from '../support/long-form.ts'
import { type HostileSocket, hostileSocket, postHead } from './hostile-sockets.ts'
import type { Server } from './server-process.ts'
import { startServer } from './started-server.ts'

const SOCKETS = 500
const HEADER_S = LONG ? 10 : 2
const REQUEST_S = LONG ? 30 : 4
/** A connection is closed at the latest this long after its limit. */
const CUT_WITHIN_MS = 12_000
const DRIP_MS = 1000
const REQUESTS = LONG ? 2000 : 200
const NOISE_MS = 5

test(`${SOCKETS} clients that drip headers or bodies are cut in time, and others do not notice`, async (t) => {
  const limits = { header_timeout_seconds: HEADER_S, request_timeout_seconds: REQUEST_S }
  const start = { env: { LOG_LEVEL: 'warn' } }
  const { server, key } = await startServer(t, { models: { keep: false }, settings: { limits }, start })
  await timesOf(server, key)
  const idle = await timesOf(server, key)
  const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => hostileSocket(server.url)))
  const dripping = sockets.map((socket, index) =>
    index % 2 === 0
      ? drip(socket, 'GET /healthz HTTP/1.1\r\nhost: parley\r\nx-a: ')
      : drip(socket, postHead('/api/v1/messages', key, 20_000)),
  )
  const busy = await timesOf(server, key)
  const tookMs = await Promise.all(dripping)
  const idleAgain = LONG ? await timesOf(server, key) : idle
  const headers = tookMs.filter((_ms, index) => index % 2 === 0)
  const bodies = tookMs.filter((_ms, index) => index % 2 === 1)
  assert.ok(Math.max(...headers) <= HEADER_S * 1000 + CUT_WITHIN_MS, `headers: ${Math.max(...headers)} ms`)
  assert.ok(Math.max(...bodies) <= REQUEST_S * 1000 + CUT_WITHIN_MS, `bodies: ${Math.max(...bodies)} ms`)
  for (const { text } of sockets) assert.match(text(), /^HTTP\/1\.1 408 /)
  t.diagnostic(
    `cut after ${Math.round(Math.max(...headers))} ms (headers), ${Math.round(Math.max(...bodies))} ms (bodies); ` +
      `p99 of others ${busy.p99.toFixed(1)} ms, ${idle.p99.toFixed(1)} and ${idleAgain.p99.toFixed(1)} ms when idle`,
  )
  // The 99th percentile of a short run depends on other work on the machine, so the short form compares only the median.
  assert.ok(
    busy.median <= 2 * idle.median + NOISE_MS,
    `median ${busy.median} ms, ${idle.median} ms when idle`,
  )
  const p99 = Math.max(idle.p99, idleAgain.p99)
  if (LONG) assert.ok(busy.p99 <= 2 * p99 + NOISE_MS, `p99 ${busy.p99} ms, ${p99} ms when idle`)
})

async function drip(socket: HostileSocket, start: string): Promise<number> {
  await socket.send(start)
  const timer = setInterval(() => void socket.send('x'), DRIP_MS)
  const ms = await socket.closed
  clearInterval(timer)
  return ms
}

async function timesOf(server: Server, key: string) {
  const caller = server.caller(key)
  const times: number[] = []
  for (let count = 0; count < REQUESTS; count++) {
    const startMs = performance.now()
    assert.equal((await caller.single('quick')).status, 200)
    times.push(performance.now() - startMs)
  }
  const sorted = times.toSorted((one, other) => one - other)
  return { median: sorted[REQUESTS / 2] ?? 0, p99: sorted[Math.floor(REQUESTS * 0.99)] ?? 0 }
}
