/**
 * Tests that the callbacks of 60 batches with the largest payloads, all due at the same moment, are delivered with a small
 * heap.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { type TestContext } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { peakOf } from '../support/memory-of.ts'
import { idsOf } from './caller.ts'
import { installation, MAIN } from './server-process.ts'

const BATCHES = 60
/**
 * The largest batches: one job with a payload that only the limit of the batch limits, or many jobs with the largest payload
 * that is allowed by default.
 */
const LARGEST = {
  whole: { jobs: 1, payload: 'x'.repeat(10_000_000) },
  many: { jobs: 30, payload: 'x'.repeat(65_000) },
}
const HEAP_MIB = 512

test(`${BATCHES} batches with the largest payloads, their callbacks due at once, with a heap of ${HEAP_MIB} MiB`, {
  timeout: 240_000,
}, async (t) => {
  const receiver = await startReceiver(t)
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0], timeout_seconds: 60 }
  const place = await installation(t, { settings: { callbacks } })
  const start = () => place.startAs([process.execPath, `--max-old-space-size=${HEAP_MIB}`, MAIN, 'serve'])
  const server = await start()
  const caller = server.caller(await server.firstKey())
  const send = ({ jobs, payload }: typeof LARGEST.whole) => {
    const callback = { callback_url: receiver.url, callback_payload: { text: payload } }
    const contents = Array.from({ length: jobs }, (_, index) => `job ${index}`)
    return eventually(
      () => caller.batch(contents, () => ({ callback })),
      ({ status }) => status !== 503,
    )
  }
  const ids = new Set<string>()
  const { whole, many } = LARGEST
  const first = await send(whole)
  const batch = first.status === 202 ? whole : many
  for (const id of idsOf(first)) ids.add(id)
  for (let left = BATCHES - ids.size; left > 0; left--) {
    const reply = await send(batch)
    assert.equal(reply.status, 202, reply.text)
    for (const id of idsOf(reply)) ids.add(id)
  }
  await eventually(
    () => receiver.ids.size,
    (count) => count === ids.size,
  )
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const replayed = await place.parley(['callbacks', 'replay', '--all-failed'])
  assert.equal(replayed.code, 0, replayed.stderr)

  receiver.up()
  const next = await start()
  const memory = peakOf(next.program.pid)
  t.after(memory.end)
  const died = next.exited.then((exit) => assert.fail(`${JSON.stringify(exit)}: ${next.program.stderr}`))
  died.catch(() => {})
  await Promise.race([
    eventually(
      () => receiver.ids.size,
      (count) => count === ids.size,
    ),
    died,
  ])
  assert.deepEqual([...receiver.ids].toSorted(), [...ids].toSorted())
  t.diagnostic(
    `${ids.size} callbacks of ${batch.payload.length} bytes: ${Math.round(memory.peakMiB())} MiB at most`,
  )
  assert.deepEqual(await next.stop(), { code: 0, signal: null })
})

/** Starts a receiver that responds with 503 until `up` is called, and only stores the job IDs of complete bodies. */
async function startReceiver(t: TestContext) {
  const ids = new Set<string>()
  let status = 503
  const server = createServer(async (request, response) => {
    let bytes = 0
    for await (const chunk of request) bytes += chunk.length
    if (bytes > 65_000) ids.add(String(request.headers['webhook-id']))
    response.writeHead(status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hook`,
    ids,
    up() {
      status = 200
      ids.clear()
    },
  }
}
