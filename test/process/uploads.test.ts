/** Tests that a budget limits the memory of bodies that never arrive completely, and that other accounts are not affected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { eventually } from '../support/eventually.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { jobOf } from './caller.ts'
import { type HostileSocket, hostileSocket, postHead } from './hostile-sockets.ts'
import { installation } from './server-process.ts'

const UPLOADS = 100
const BODY_BYTES = 10_000_000
const MAX_MIB = 300
const REQUEST_TIMEOUT_S = 8
/** A connection is closed at the latest this long after its limit. */
const CUT_WITHIN_MS = 12_000

test(`${UPLOADS} unfinished uploads of 10 MB take at most ${MAX_MIB} MiB, and others upload meanwhile`, async (t) => {
  const place = await installation(t, {
    settings: { limits: { request_timeout_seconds: REQUEST_TIMEOUT_S }, jobs: { concurrency: 2 } },
  })
  const server = await place.start({ heapMib: 512 })
  const { pid } = server.program
  const hostile = await place.key('hostile', 'user_free')
  const other = server.caller(await server.firstKey())
  assert.equal((await other.batch(['warm up'])).status, 202)

  const before = residentMiB(pid)
  const memory = peakOf(pid)
  t.after(memory.end)
  const sockets = await Promise.all(Array.from({ length: UPLOADS }, () => hostileSocket(server.url)))
  t.after(() => {
    for (const { close } of sockets) close()
  })
  const almostAll = Buffer.alloc(BODY_BYTES - 1000, 'x')
  await Promise.all(
    sockets.map(async ({ send }) => {
      await send(postHead('/api/v1/messages/batches', hostile, BODY_BYTES))
      await send(almostAll)
    }),
  )
  const large = await other.batch(['x'.repeat(2_000_000), 'x'.repeat(2_000_000), 'x'.repeat(2_000_000)])
  assert.equal(large.status, 202, large.text)
  assert.equal((await other.batch(['small'])).status, 202)
  const rejected = sockets.filter(isRejected).length
  const tookMs = await Promise.all(sockets.map(({ closed }) => closed))
  const peak = memory.peakMiB()
  assert.ok(peak - before <= MAX_MIB, `${before} MiB before, ${peak} MiB at most`)
  assert.ok(Math.max(...tookMs) <= REQUEST_TIMEOUT_S * 1000 + CUT_WITHIN_MS, `${Math.max(...tookMs)} ms`)
  assert.ok(rejected >= UPLOADS / 2, `${rejected} rejected`)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  t.diagnostic(`${UPLOADS} unfinished uploads: ${Math.round(peak - before)} MiB more at most`)
})

test('the rejected uploads name the limit, and what they hold is free again when they end', async (t) => {
  const place = await installation(t, { settings: { limits: { memory_bytes: 64 * 1024 * 1024 } } })
  const server = await place.start()
  const key = await server.firstKey()
  const [first, second] = [await hostileSocket(server.url), await hostileSocket(server.url)]
  for (const { send } of [first, second]) void send(postHead('/api/v1/messages/batches', key, 6_000_000))
  const text = () => [first, second].find(isRejected)?.text() ?? ''
  const rejected = await eventually(text, (found) => found.includes('memory_bytes'))
  assert.match(rejected, /^retry-after: 5\r$/m)
  assert.match(rejected, /share of the memory for uploads \(limits\.memory_bytes\)/)
  first.close()
  second.close()
  const held = async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text()
    assert.match(text, /^parley_memory_rejections_total\{share="uploads",reason="over part"\} [1-9]/m)
    return /^parley_memory_bytes\{share="uploads",state="held"\} (\d+)$/m.exec(text)?.[1]
  }
  await eventually(held, (bytes) => bytes === '0')
  const body = JSON.stringify([jobOf('x'.repeat(1_000_000))])
  const whole = await hostileSocket(server.url)
  t.after(() => whole.close())
  void whole.send(postHead('/api/v1/messages/batches', key, body.length))
  void whole.send(body)
  await eventually(() => whole.text().startsWith('HTTP/1.1 202'), Boolean)
})

function isRejected({ text }: HostileSocket): boolean {
  return text().startsWith('HTTP/1.1 503')
}
