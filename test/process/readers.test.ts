/**
 * Tests that a budget limits the memory of clients that never read their responses, and that these clients are disconnected.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { eventually } from '../support/eventually.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { idsOf } from './caller.ts'
import { getHead, hostileSocket } from './hostile-sockets.ts'
import type { Server } from './server-process.ts'
import { startServer } from './started-server.ts'

const READERS = 200
const MAX_MIB = 150
const STALLED_S = 4
const CLOSED_WITHIN_MS = 90_000
const ANSWER = 'x'.repeat(5_000_000)

function stage(t: TestContext) {
  const models = { keep: false, script: () => reply.text(ANSWER) }
  const settings = { limits: { stalled_write_seconds: STALLED_S } }
  return startServer(t, { models, settings, start: { heapMib: 512 } })
}

async function neverRead(
  t: TestContext,
  { url, program: { pid } }: Server,
  request: string,
  isOver: () => Promise<boolean>,
) {
  const before = residentMiB(pid)
  const memory = peakOf(pid)
  t.after(memory.end)
  const sockets = await Promise.all(
    Array.from({ length: READERS }, () => hostileSocket(url, { reads: false })),
  )
  t.after(() => {
    for (const { close } of sockets) close()
  })
  await Promise.all(sockets.map(({ send }) => send(request)))
  await eventually(isOver, (over) => over, { withinMs: CLOSED_WITHIN_MS })
  return { before, peak: memory.peakMiB() }
}

test(`${READERS} clients without a key that never read take at most ${MAX_MIB} MiB, and are closed`, async (t) => {
  const { server } = await stage(t)
  const script = await fetch(`${server.url}/docs/js/scalar.js`)
  assert.ok((await script.text()).length > 1_000_000)
  const areClosed = async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text()
    return text.includes(`\nparley_connections_stalled_total ${READERS}\n`)
  }
  const request = getHead('/docs/js/scalar.js', null)
  const { before, peak } = await neverRead(t, server, request, areClosed)
  assert.ok(peak - before <= MAX_MIB, `${before} MiB before, ${peak} MiB at most`)
  t.diagnostic(`without a key: ${Math.round(peak - before)} MiB more at most`)
})

test(`${READERS} readers of one account that never read take at most ${MAX_MIB} MiB, and others read meanwhile`, async (t) => {
  const { place, server, key, caller } = await stage(t)
  const made = await caller.single('a long answer')
  const [jobId = ''] = idsOf(made)
  assert.ok(jobId, made.text.slice(0, 300))
  const first = await caller.read(jobId)
  assert.ok(first.text.length > ANSWER.length, first.text)
  const other = server.caller(await place.key('other'))
  const [otherId = ''] = idsOf(await other.single('another long answer'))

  const metrics = async () => (await fetch(`${server.url}/metrics`)).text()
  const isHeld = (text: string) => !text.includes('parley_memory_bytes{share="answers",state="held"} 0\n')
  const closed = neverRead(t, server, getHead(`/api/v1/messages/${jobId}`, key), async () => {
    const text = await metrics()
    return /^parley_connections_stalled_total [1-9]/m.test(text) && !isHeld(text)
  })
  // An earlier read would use the share of the account, and all further reads would be rejected.
  await eventually(metrics, isHeld)
  const read = await eventually(
    () => caller.read(jobId),
    ({ status }) => status === 503,
  )
  assert.equal(read.headers['retry-after'], '5')
  assert.match(read.body.details ?? '', /share of the memory for answers \(limits\.memory_bytes\)/)
  const mine = await other.read(otherId)
  assert.equal(mine.status, 200, mine.text.slice(0, 300))
  const { before, peak } = await closed
  assert.ok(peak - before <= MAX_MIB, `${before} MiB before, ${peak} MiB at most`)
  assert.equal((await caller.read(jobId)).status, 200)
  t.diagnostic(`with a key: ${Math.round(peak - before)} MiB more at most`)
})
