/**
 * Tests that one account cannot harm others. A hostile account runs all attacks known to hurt a server at once. The process
 * must survive with a small heap, and must answer the requests of another account. The long form also limits the latencies.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { LONG } from '../support/long-form.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import type { Server } from './server-process.ts'
import { startServer } from './started-server.ts'
import { slowness } from './watched-server.ts'

const ACCOUNT = fileURLToPath(new URL('./hostile-account.ts', import.meta.url))
const HEAP_MB = 512
const ATTACK_MS = LONG ? 120_000 : 3000
/** These limits are in real time, on an otherwise idle machine. */
const HEALTH_MS = 250
const SMALL_MS = 1000
const COUNTED_MS = 2000
/** Parley counts the tokens of these 57 KB. */
const PROSE = 'The quick brown fox jumps over the lazy dog. '.repeat(1300)

test('a server under every attack of one account at once lives, and answers another account', async (t) => {
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const start = { heapMib: HEAP_MB, env: { LOG_LEVEL: 'error' } }
  const { place, server, caller } = await startServer(t, { models: { keep: false }, settings, start })
  const key = await place.key('hostile', 'user_free')
  const requests = [
    { name: '/healthz', limitMs: HEALTH_MS, send: () => health(server) },
    { name: 'a small create', limitMs: SMALL_MS, send: () => caller.single('small') },
    {
      name: 'a create of 57 KB',
      limitMs: COUNTED_MS,
      send: () => caller.single(`${Math.random()} ${PROSE}`),
    },
  ]
  // The first create whose tokens are counted loads the tokenizer, which must not be measured. So each request is sent once
  // before.
  for (const { send } of requests) assert.equal((await send()).status, 200)

  const beforeMiB = residentMiB(server.program.pid)
  const memory = peakOf(server.program.pid)
  t.after(memory.end)
  const hostile = place.spawn([process.execPath, ACCOUNT, server.url, key])
  await hostile.line(/attacking/)
  const untilMs = performance.now() + ATTACK_MS
  const times = await Promise.all(requests.map(({ send }) => timesUntil(untilMs, send)))
  hostile.kill('SIGTERM')
  const statuses = await hostile.line(/\{.*\}/)
  const late: string[] = []
  for (const [index, { name, limitMs }] of requests.entries()) {
    const sorted = (times[index] ?? []).toSorted((one, other) => one - other)
    const most = sorted.at(-1) ?? Number.POSITIVE_INFINITY
    const middle = sorted[Math.floor(sorted.length / 2)] ?? 0
    const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? 0
    const figures = `${name}: ${sorted.length} times, median ${middle.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, at most ${most.toFixed(0)} ms (${limitMs} ms allowed)`
    t.diagnostic(figures)
    if (most > limitMs * slowness()) late.push(figures)
  }
  t.diagnostic(
    `memory: ${Math.round(memory.peakMiB() - beforeMiB)} MiB more at most; the account got ${statuses[0]}`,
  )
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  // This assertion comes last, so that the report has every figure.
  if (LONG) assert.deepEqual(late, [])
})

async function health({ url }: Server): Promise<{ readonly status: number }> {
  const answer = await fetch(`${url}/healthz`)
  await answer.arrayBuffer()
  return answer
}

/** Sends one request after the other. Each must get 200. Returns the milliseconds that each took. */
async function timesUntil(
  untilMs: number,
  send: () => Promise<{ readonly status: number }>,
): Promise<number[]> {
  const times: number[] = []
  while (performance.now() < untilMs) {
    const startMs = performance.now()
    assert.equal((await send()).status, 200)
    times.push(performance.now() - startMs)
  }
  return times
}
