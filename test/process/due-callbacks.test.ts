/**
 * Tests callbacks that are due at the same time and together larger than the heap: the server survives, and delivers all of
 * them after a restart.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { eventually } from '../support/eventually.ts'
import { peakOf } from '../support/memory-of.ts'
import { type Caller, idsOf } from './caller.ts'
import { serveHttp } from './http-server.ts'
import { installation } from './server-process.ts'

/** One character is outside Latin-1, so that each character takes two bytes of heap. */
const CONTENT = `${'x'.repeat(10_000_000)}€`
const CONTENT_JSON = Buffer.from(JSON.stringify(CONTENT))
const PAYLOAD = 'x'.repeat(9_900_000)
const PAYLOADS = 28
const ANSWERS = 14
const HEAP_MIB = 256

interface Case {
  readonly answer: string
  readonly isWhole: (body: Buffer) => boolean
  readonly create: (caller: Caller, callback_url: string) => Promise<readonly string[]>
}

async function deliversAll(t: TestContext, { answer, isWhole, create }: Case): Promise<void> {
  const models = await startModelServer({ keep: false, script: () => reply.text(answer) }, t)
  /** The receiver responds with 503 at first. It stores only the IDs of jobs, to save memory. */
  const received = { ids: new Set<string>(), status: 503 }
  const url = await serveHttp(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (isWhole(Buffer.concat(chunks))) received.ids.add(String(request.headers['webhook-id']))
    response.writeHead(received.status).end()
  })
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0], timeout_seconds: 60 }
  const limits = { callback_payload_bytes: PAYLOAD.length + 100 }
  const settings = { callbacks, limits, jobs: { concurrency: 2 } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const server = await place.start({ heapMib: HEAP_MIB })
  const ids = [...(await create(server.caller(await server.firstKey()), `${url}/hook`))].sort()
  const allReceived = () =>
    eventually(
      () => received.ids.size,
      (count) => count === ids.length,
    )
  await allReceived()
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  await place.output(['callbacks', 'replay', '--all-failed'])

  received.status = 200
  received.ids.clear()
  const next = await place.start({ heapMib: HEAP_MIB })
  const memory = peakOf(next.program.pid)
  t.after(memory.end)
  const died = next.exited.then((exit) => assert.fail(`${JSON.stringify(exit)}: ${next.program.stderr}`))
  died.catch(() => {})
  await Promise.race([allReceived(), died])
  assert.deepEqual([...received.ids].sort(), ids)
  t.diagnostic(`${ids.length} callbacks: ${Math.round(memory.peakMiB())} MiB at most`)
  assert.deepEqual(await next.stop(), { code: 0, signal: null })
  assert.doesNotMatch(next.program.stderr, /callback failed/)
}

test(`${ANSWERS} callbacks with answers of 10 MB are delivered with a heap of ${HEAP_MIB} MiB`, (t) =>
  deliversAll(t, {
    answer: CONTENT,
    isWhole: (body) => body.includes(CONTENT_JSON),
    create: async (caller, callback_url) => {
      const contents = Array.from({ length: ANSWERS }, (_, index) => `job ${index}`)
      return idsOf(await caller.batch(contents, () => ({ callback: { callback_url } })))
    },
  }))

test(`${PAYLOADS} callbacks with payloads of 10 MB are delivered with a heap of ${HEAP_MIB} MiB`, (t) =>
  deliversAll(t, {
    answer: 'ok',
    isWhole: (body) => body.length > PAYLOAD.length,
    create: async (caller, callback_url) => {
      const callback = { callback_url, callback_payload: { text: PAYLOAD } }
      const ids: string[] = []
      while (ids.length < PAYLOADS) {
        // The memory for bodies may be full for a moment.
        const created = await eventually(
          () => caller.batch([`job ${ids.length}`], () => ({ callback })),
          ({ status }) => status !== 503,
        )
        assert.equal(created.status, 202, created.text)
        ids.push(...idsOf(created))
      }
      return ids
    },
  }))
