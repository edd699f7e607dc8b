/**
 * Tests SIGTERM under load. No accepted job is lost, no caller of an accepted job gets an error, and the shutdown takes at most
 * 30 s.
 */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { type ReceiverReply, startReceiver } from '../receiver.ts'
import { LONG, runsOf } from '../support/long-form.ts'
import { callbackTo } from './callback-ledger.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import { CrashRun } from './crash-run.ts'
import { gauge } from './gauge.ts'
import { hostileSocket, postHead } from './hostile-sockets.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { jobsByStatus } from './rows.ts'
import { installation, type Server } from './server-process.ts'
import { startServer } from './started-server.ts'

const DRAIN_WITHIN_MS = 30_000
const CONCURRENCY = 8
const RESERVE = 1
/** The signal is sent up to this many turns of the event loop after the last caller has begun to wait. */
const MOST_TURNS = 200
/** Each drain mostly waits for its server, so this many run at the same time. */
const AT_ONCE = 4
const DRAINS = LONG ? 50 : 2
const MOST_EVENTS = 240
const MOST_IN_A_BATCH = 10

describe('SIGTERM under load', { concurrency: AT_ONCE }, () => {
  for (const run of runsOf(100)) {
    test(`waiters get their ids, and after a restart every accepted job completes${run}`, drainUnderLoad)
  }
})

for (const run of runsOf(2)) {
  test(
    `${DRAINS} restarts while jobs flow lose nothing, repeat nothing and reject nothing${run}`,
    drainAgainAndAgain,
  )
}

async function drainAgainAndAgain(t: TestContext): Promise<void> {
  const random = Random.of(t)
  const models = await startModelServer({ keep: false }, t)
  const settings = { jobs: { concurrency: 24, max_attempts: 1 } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const ledger = new Ledger((content) => `echo: ${content}`)
  let longestMs = 0
  const stop = async (server: Server) => {
    const signalledMs = performance.now()
    assert.deepEqual(await server.stop(), { code: 0, signal: null })
    longestMs = Math.max(longestMs, performance.now() - signalledMs)
  }
  const run = new CrashRun({
    place,
    random,
    kills: DRAINS,
    callers: 8,
    mostEvents: MOST_EVENTS,
    ask: async (caller, name) => {
      const size = random.below(2) === 0 ? 1 : 1 + random.below(MOST_IN_A_BATCH)
      const contents = Array.from({ length: size }, (_, index) => `${name}, job ${index}`)
      ledger.accepted(
        contents,
        await (size === 1 ? caller.single(contents[0] ?? '') : caller.batch(contents)),
      )
    },
    end: stop,
    onCalm: () => {},
  })
  let calls = 0
  models.script = () => {
    calls += 1
    run.event()
    return undefined
  }
  const { server, key } = await run.run()
  await ledger.readAll(server.caller(key))
  await stop(server)
  // A request whose connection was closed was not accepted, so the counts must be equal.
  assert.deepEqual(jobsByStatus(place.database), { completed: ledger.size })
  assert.equal(calls, ledger.size)
  assert.ok(longestMs <= DRAIN_WITHIN_MS, `a drain took ${longestMs} ms`)
  t.diagnostic(
    `${DRAINS} drains, ${ledger.size} jobs, all completed; the longest took ${Math.round(longestMs)} ms`,
  )
}

async function drainUnderLoad(t: TestContext): Promise<void> {
  const random = Random.of(t)
  // With `max_attempts: 1`, a job fails at its first crash. Being released must not count as one.
  const settings = { jobs: { concurrency: CONCURRENCY + RESERVE, drain_seconds: 1, max_attempts: 1 } }
  const { models, place, server, key, caller } = await startServer(t, { settings })

  // All slots are taken: by four jobs that end while the server drains, and by four that do not end.
  models.script = ({ text }) => (text.includes('never') ? () => {} : reply.stall())
  const running = ['ends', 'never'].flatMap((kind) => [1, 2, 3, 4].map((n) => caller.single(`${kind} ${n}`)))
  await models.received(CONCURRENCY)
  const batch = await caller.batch(Array.from({ length: 20 }, (_, n) => `queued ${n}`))
  assert.equal(batch.status, 202)
  const queued = [1, 2, 3, 4].map((n) => caller.single(`queued single ${n}`))
  await gauge(server.url, 'parley_waiters', running.length + queued.length)

  const busy = [1, 2, 3].map((n) => askUntilRefused(server.caller(key), `busy ${n}`))
  await gauge(server.url, 'parley_waiters', running.length + queued.length + 1)
  for (let turns = random.below(MOST_TURNS); turns > 0; turns--) {
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
  const signalledAt = Date.now()
  server.kill('SIGTERM')

  const waited = await Promise.all([...running, ...queued])
  for (const answer of waited) assertTimedOut(answer)
  models.release()
  assert.deepEqual(await server.exited, { code: 0, signal: null })
  const tookMs = Date.now() - signalledAt
  assert.ok(tookMs <= DRAIN_WITHIN_MS, `the drain took ${tookMs} ms`)

  const answers = [...waited, batch, ...(await Promise.all(busy)).flat()]
  assert.deepEqual(
    answers.filter(({ status }) => status !== 200 && status !== 202).map(({ text }) => text),
    [],
  )
  const drained = models.requests.map(({ text }) => text)
  models.script = () => undefined
  const next = await place.start()
  const again = next.caller(key)
  const accepted = answers.flatMap(idsOf)
  for (const id of accepted) {
    const { body } = await again.ended(id)
    assert.equal(body.data?.status, 'completed', JSON.stringify(body.data))
  }
  const calls = (words: string) => models.requests.filter(({ text }) => text.includes(words)).length
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => calls(`ends ${n}`)),
    [1, 1, 1, 1],
    'what ended during the drain is not run again',
  )
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => calls(`never ${n}`)),
    [2, 2, 2, 2],
    'what could not end was given back and run once more',
  )
  t.diagnostic(
    `${accepted.length} jobs accepted, ${drained.length} called before the end, drain ${tookMs} ms`,
  )
}

test('connections that have sent nothing, part of the headers or part of a body do not hold up the drain', async (t) => {
  const place = await installation(t)
  const server = await place.start()
  const key = await server.firstKey()
  const half = postHead('/api/v1/messages', key, 100)
  for (const sent of ['', half.slice(0, 30), `${half}{`]) {
    const socket = await hostileSocket(server.url)
    t.after(() => socket.close())
    if (sent !== '') await socket.send(sent)
  }
  // The response to this later request shows that the server knows all connections that were opened before.
  assert.equal((await server.caller(key).single('Hello')).status, 200)
  const signalledAt = Date.now()
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  assert.ok(Date.now() - signalledAt <= DRAIN_WITHIN_MS, `the drain took ${Date.now() - signalledAt} ms`)
})

/**
 * A new receiver gets only a few concurrent attempts until it has answered some, so these callbacks come before those that
 * stall.
 */
const ANSWERED = 20
const STALLED = 8

test('SIGTERM while callbacks are in flight to a receiver that stalls: the server ends in time, and the next start delivers them', async (t) => {
  let reply: ReceiverReply = { kind: 'answer' }
  const receiver = await startReceiver({ reply: () => reply }, t)
  // Each callback has only one attempt, so an attempt that the drain interrupts must not count. The timeout of attempts is
  // never reached.
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0], timeout_seconds: 3600 }
  const place = await installation(t, { settings: { callbacks } })
  const server = await place.start()
  const key = await server.firstKey()
  const create = async (count: number) => {
    const contents = Array.from({ length: count }, (_, index) => `job ${index}`)
    return idsOf(await server.caller(key).batch(contents, callbackTo(receiver.url)))
  }
  await create(ANSWERED)
  await receiver.received(ANSWERED)
  reply = { kind: 'stall' }
  const ids = await create(STALLED)
  await receiver.received(ANSWERED + STALLED)

  const signalledAt = Date.now()
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const tookMs = Date.now() - signalledAt
  assert.ok(tookMs <= DRAIN_WITHIN_MS, `the drain took ${tookMs} ms`)

  reply = { kind: 'answer' }
  const next = await place.start()
  const requests = await receiver.received(ANSWERED + 2 * STALLED)
  const again = requests.slice(ANSWERED + STALLED).map(({ headers }) => headers['webhook-id'])
  assert.deepEqual(again.sort(), [...ids].sort())
  assert.deepEqual(await next.stop(), { code: 0, signal: null })
  t.diagnostic(`${STALLED} callbacks cut off, drain ${tookMs} ms`)
})

async function askUntilRefused(caller: Caller, name: string): Promise<Reply[]> {
  const answers: Reply[] = []
  for (;;) {
    try {
      answers.push(await caller.single(`${name}, request ${answers.length}`))
    } catch (error) {
      assert.match(String((error as { code?: string }).code), /ECONNREFUSED|ECONNRESET|UND_ERR_SOCKET/)
      return answers
    }
  }
}

function assertTimedOut({ status, body }: Reply): void {
  assert.deepEqual([status, body.success, body.data?.status], [202, true, 'timeout'])
  assert.match(body.data?.job_id ?? '', /^[0-9a-f-]{36}$/)
}
