/**
 * Tests callbacks that are due at the same time and together larger than the heap: the server survives, and delivers all of
 * them after a restart.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { type TestContext } from 'node:test'
import { reply as answer, startModelServer } from '../model-server.ts'
import { idsOf } from './caller.ts'
import { installation, MAIN } from './server-process.ts'

const timeout = 120_000
const HEAP_MIB = 256
const CALLBACKS = 16
/** The text has one character outside Latin-1, so that each character takes two bytes of heap: 320 MB for all callbacks. */
const CONTENT = `${'x'.repeat(10_000_000)}€`
const CONTENT_JSON = Buffer.from(JSON.stringify(CONTENT))

test(`${CALLBACKS} callbacks of 10 MB are delivered with a heap of ${HEAP_MIB} MiB`, {
  timeout,
}, async (t) => {
  const models = await startModelServer({ keep: false, script: () => answer.text(CONTENT) }, t)
  const receiver = await startReceiver(t)
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0], timeout_seconds: 60 }
  const place = await installation(t, {
    upstream: models.baseUrl,
    settings: { callbacks, jobs: { concurrency: 2 } },
  })
  const start = () => place.startAs([process.execPath, `--max-old-space-size=${HEAP_MIB}`, MAIN, 'serve'])
  const server = await start()
  const caller = server.caller(await server.firstKey())
  const contents = Array.from({ length: CALLBACKS }, (_, index) => `job ${index}`)
  const reply = await caller.batch(contents, () => ({ callback: { callback_url: receiver.url } }))
  const ids = [...idsOf(reply)].sort()
  assert.deepEqual([...(await receiver.received(CALLBACKS))].sort(), ids)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const replayed = await place.parley(['callbacks', 'replay', '--all-failed'])
  assert.equal(replayed.code, 0, replayed.stderr)

  receiver.up()
  const next = await start()
  const died = next.exited.then((exit) => assert.fail(`${JSON.stringify(exit)}: ${next.program.stderr}`))
  const delivered = await Promise.race([receiver.received(CALLBACKS), died])
  assert.deepEqual([...delivered].sort(), ids)
  died.catch(() => {})
  assert.deepEqual(await next.stop(), { code: 0, signal: null })
  assert.doesNotMatch(next.program.stderr, /callback failed/)
})

/** Starts a receiver that responds with 503 until `up` is called, and stores no bodies. */
async function startReceiver(t: TestContext) {
  let ids = new Set<string>()
  let status = 503
  let check = () => {}
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (Buffer.concat(chunks).includes(CONTENT_JSON)) ids.add(String(request.headers['webhook-id']))
    response.writeHead(status).end()
    check()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hook`,
    up() {
      status = 200
      ids = new Set()
    },
    /** Resolves with the job IDs when `count` complete callbacks have arrived, whatever their response was. */
    received: (count: number) =>
      new Promise<ReadonlySet<string>>((resolve) => {
        check = () => ids.size >= count && resolve(ids)
        check()
      }),
  }
}
