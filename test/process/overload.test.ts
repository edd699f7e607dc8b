/**
 * Tests a server with five times the load that it can handle. It must reject the excess and tell clients when to retry, and
 * must keep what it has accepted. Its memory must not grow with the load.
 */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { LONG } from '../support/long-form.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { type Database, onBothStores } from './both-stores.ts'
import type { Caller } from './caller.ts'
import { Ledger } from './ledger.ts'
import { startServer } from './started-server.ts'

const QUEUED_WRITES = 10
/** Each caller has at most one write in progress. */
const CALLERS = 5 * QUEUED_WRITES
const REQUESTS = LONG ? 20_000 : 500
const BATCH = 5
const TEXT = 'x'.repeat(5000)
/**
 * If memory grew with the load, a process with such a small heap would crash. With a larger heap, V8 would not need a full
 * collection for a long time.
 */
const HEAP_MIB = 192
const MAX_MIB = 200

onBothStores(
  (store) =>
    `five times the writes that may wait, on ${store}: the rest gets 503, and what was accepted ends`,
  overload,
  { real: true },
)

async function overload(t: TestContext, database: Database): Promise<void> {
  const limits = { queued_writes: QUEUED_WRITES, rejections_per_second: 1_000_000 }
  const start = { heapMib: HEAP_MIB, env: { LOG_LEVEL: 'error' } }
  const models = { keep: false }
  const { server, caller } = await startServer(t, { models, settings: { limits }, start, ...database })
  const ledger = new Ledger((content) => `echo: ${content}`)
  const load = { caller, ledger, refused: 0 }
  await askAll(load, 'warm up', 10 * CALLERS)

  const { pid } = server.program
  const beforeMiB = residentMiB(pid)
  const memory = peakOf(pid)
  t.after(memory.end)
  await askAll(load, 'overload', REQUESTS)
  const moreMiB = memory.peakMiB() - beforeMiB
  assert.ok(load.refused > 0, 'no request was too much')
  assert.ok(ledger.size > 0)
  assert.ok(moreMiB <= MAX_MIB, `${moreMiB} MiB more`)
  await ledger.readAll(caller)
  assert.equal((await caller.single('after the overload')).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  t.diagnostic(
    `${REQUESTS} requests of ${CALLERS} callers: ${ledger.size} jobs accepted, all completed; ${load.refused} requests refused; ${moreMiB.toFixed(0)} MiB more`,
  )
}

interface Load {
  readonly caller: Caller
  readonly ledger: Ledger
  refused: number
}

async function askAll(load: Load, name: string, requests: number): Promise<void> {
  const left = Array.from({ length: requests }, (_, index) => index).values()
  const ask = async () => {
    for (const index of left) await askOnce(load, `${name} ${index}`, index % 2 === 0)
  }
  await Promise.all(Array.from({ length: CALLERS }, ask))
}

async function askOnce(load: Load, name: string, single: boolean): Promise<void> {
  const contents = single ? [name + TEXT] : Array.from({ length: BATCH }, (_, job) => `${name}.${job}${TEXT}`)
  const reply = await (single ? load.caller.single(contents[0] ?? '') : load.caller.batch(contents))
  if (reply.status !== 503) {
    load.ledger.accepted(contents, reply)
    return
  }
  assert.ok(Number(reply.headers['retry-after']) >= 1, 'a 503 says when to come again')
  load.refused += 1
}
