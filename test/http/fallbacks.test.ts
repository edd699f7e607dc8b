/**
 * Tests single creates that end without a result, with 408, 503 or 404: the caller always gets an ID (SPEC §4.3). Also tests a
 * shutdown behind a load balancer: `/readyz` reports it first, and the listener closes last.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { finished } from 'node:stream/promises'
import test from 'node:test'
import { Client } from 'undici'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { callerOf, idOf, MESSAGES, says, startScene } from './caller.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, granted, refused, timedOut } from './expect.ts'
import { openLine, readAnswer } from './raw-http.ts'
import { pendingResponsesAre, type Stage, startStage, stopAtOnce } from './stage.ts'

const ORDER = { 'idempotency-key': 'order-1' }
const STALL = { script: () => reply.stall() }

const LISTEN_MS = 5000
/** Parley serves open connections for this many milliseconds after the listener has closed. */
const LAST_REQUESTS_MS = 500

async function isAccepted(url: string): Promise<boolean> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  const accepted = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return accepted
}

onEachStore(() => {
  test('4.3 503: too many requests wait already, so the job is created and 202 returned at once', async (t) => {
    const { caller, models } = await startScene(t, { settings: { sync: { max_waiters: 1 } }, ...STALL })
    const first = caller.create()
    await models.received(1)
    const id = timedOut(await caller.create())
    await models.received(2)
    models.release()
    completed(await first)
    completed(await caller.ended(id))
    // The earlier response is no longer pending, so one waiting slot is free.
    models.script = () => undefined
    completed(await caller.create())
  })

  test('4.3 however many requests of one account wait, one of another account gets its answer', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: { sync: { max_waiters: 4 } },
      ...STALL,
    })
    const other = await callerOf(parley, 'user_free', 'other')
    const ofCrowd = [1, 2, 3, 4, 5].map(() => caller.create())
    await models.received(5)
    const single = other.create()
    await models.received(6)
    models.release()
    completed(await single)
    const statuses = (await Promise.all(ofCrowd)).map(({ status }) => status)
    assert.deepEqual(statuses.toSorted(), [200, 200, 200, 202, 202])
  })

  test('4.3 503: the server stops, so those who wait get 202, and their jobs run after the next start', async (t) => {
    const scene = await startScene(t, STALL)
    const { caller, models } = scene
    const waiting = [caller.create(), caller.create()]
    await models.received(2)
    const stopped = stopAtOnce(scene)
    const ids = (await Promise.all(waiting)).map(timedOut)
    await stopped
    models.script = () => undefined
    const next = caller.at((await startStage(t, { after: scene })).parley)
    for (const id of ids) assert.equal(completed(await next.ended(id)), 'echo: Hello')
  })

  test('4.3 503: a request that arrives while the server stops is created, and answered 202', async (t) => {
    const scene = await startScene(t)
    const { parley, caller } = scene
    const body = JSON.stringify(job())
    const line = openLine(parley)
    const head = [`POST ${MESSAGES} HTTP/1.1`, 'host: parley', `x-api-key: ${caller.key}`]
    head.push('expect: 100-continue', 'content-type: application/json', `content-length: ${body.length}`)
    line.send(`${head.join('\r\n')}\r\n\r\n`)
    await line.until(/100 Continue/)
    const stopped = parley.stop()
    line.send(body)
    const id = timedOut(readAnswer(await line.closed))
    await stopped
    const next = caller.at((await startStage(t, { after: scene })).parley)
    assert.equal(completed(await next.ended(id)), 'echo: Hello')
  })

  test('4.3 404: the job vanished while it was waited for, so it is created again, and 202 has the new id', async (t) => {
    const { parley, caller, models } = await startScene(t, STALL)
    const waiting = caller.create()
    await models.received(1)
    const database = await openDatabase(t, parley)
    // The call to the model starts before the job is stored, so the test waits for the storage, too.
    const [vanished] = await jobsStored(t, database, 1)
    await database.deleteJobs()
    models.script = () => undefined
    models.release()
    const id = timedOut(await waiting)
    assert.notEqual(id, vanished)
    assert.equal(completed(await caller.ended(id)), 'echo: Hello')
    refused(await caller.read(vanished), 404)
    assert.deepEqual(await database.jobIds(), [id])
    assert.equal(models.requests.length, 2)
  })

  test('4.3 404: whoever repeats the request of a job that has vanished gets one that exists', async (t) => {
    const { parley, caller } = await startScene(t)
    const first = await caller.create({}, ORDER)
    await (await openDatabase(t, parley)).deleteJobs()
    const second = await caller.create({}, ORDER)
    assert.equal(completed(second), 'echo: Hello')
    assert.notEqual(idOf(second), idOf(first))
    assert.deepEqual((await caller.create({}, ORDER)).body, second.body)
  })

  test('4.3 404: a job that vanishes while two wait for it is created again for both', async (t) => {
    const { parley, caller, models } = await startScene(t, STALL)
    const first = caller.create({}, ORDER)
    await models.received(1)
    const second = caller.create({}, ORDER)
    await pendingResponsesAre(t, parley, 2)
    const database = await openDatabase(t, parley)
    await jobsStored(t, database, 1)
    await database.deleteJobs()
    // The call of the new job must stall as well. Otherwise the new job could complete before the second caller finds it.
    models.release()
    const answers = await Promise.all([first, second])
    models.script = () => undefined
    models.release()
    for (const answer of answers) {
      assert.equal(completed(await caller.ended(timedOut(answer))), 'echo: Hello')
    }
  })

  test('3 a released job reads assigned, never pending again', async (t) => {
    const scene = await startScene(t, { settings: { jobs: { concurrency: 2 } }, ...STALL })
    const { caller, models } = scene
    const ids = await caller.enqueue([job(), job()])
    await models.received(2)
    await stopAtOnce(scene)
    // The next server runs one job at a time, so the other job stays queued.
    const { parley } = await startStage(t, { settings: { jobs: { concurrency: 1 } }, after: scene })
    const next = caller.at(parley)
    await models.received(3)
    for (const id of ids) {
      const { status, result, error } = granted(await next.read(id), 200)
      assert.deepEqual([status, result, error], ['assigned', null, null])
    }
    models.script = () => undefined
    models.release()
    for (const id of ids) completed(await next.ended(id))
  })

  test('for shutdown.listen_seconds, /readyz responds with 503 while requests are accepted and jobs run', async (t) => {
    // This hook runs before the stage's own. If the test fails early, it advances the clock, so that the server can stop.
    let stage: Stage | undefined
    t.after(() => stage?.clock.advance(LISTEN_MS + LAST_REQUESTS_MS))
    const settings = { shutdown: { listen_seconds: LISTEN_MS / 1000 } }
    stage = await startStage(t, { settings })
    const { parley, models, clock } = stage
    const caller = await callerOf(parley)
    granted(await parley.get('/readyz'), 200)
    const stopped = parley.stop()

    refused(await parley.get('/readyz'), 503)
    granted(await parley.get('/healthz'), 200)
    const single = await caller.create()
    completed(single)
    // If the server told a proxy to close, the proxy would open a new connection for each request.
    assert.equal(single.headers.get('connection'), 'keep-alive')
    const [id] = await caller.enqueue([says('in a batch')])
    completed(await caller.read(id, '?wait=10'))

    // The listener has closed now. Each open connection may send one more request.
    models.script = () => reply.stall()
    const waiting = caller.ask('stalls')
    await models.received(3)
    const [open, rejected] = [new Client(parley.url), new Client(parley.url)]
    t.after(() => Promise.all([open.destroy(), rejected.destroy()]))
    const getOn = async (client: Client, path: string) => {
      const { statusCode, headers, body } = await client.request({ method: 'GET', path })
      await body.dump()
      return [statusCode, headers.connection]
    }
    assert.deepEqual(await getOn(open, '/healthz'), [200, 'keep-alive'])
    assert.deepEqual(await getOn(rejected, '/nowhere'), [404, 'keep-alive'])
    clock.advance(LISTEN_MS)
    while (await isAccepted(parley.url)) {}
    assert.deepEqual(await getOn(open, '/healthz'), [200, 'close'])
    assert.deepEqual(await getOn(rejected, '/nowhere'), [404, 'close'])

    // Then the drain begins, and the request that waits for its job gets a 202.
    clock.advance(LAST_REQUESTS_MS)
    timedOut(await waiting)
    models.release()
    await stopped
  })

  test('a client that sends a large body to a stopping server gets its error, and is not reset', async (t) => {
    // If the test fails early, this hook advances the clock, so that the server can stop.
    let stage: Stage | undefined
    t.after(() => stage?.clock.advance(LISTEN_MS + LAST_REQUESTS_MS))
    const settings = {
      shutdown: { listen_seconds: LISTEN_MS / 1000 },
      limits: { body_bytes: 1_000_000, rejections_per_second: 1_000_000 },
    }
    stage = await startStage(t, { settings })
    const { parley, models, clock } = stage
    models.script = () => reply.stall()
    const waiting = parley.post(MESSAGES, job(), await parley.key())
    await models.received(1)
    const { port, hostname } = new URL(parley.url)
    const heads = [
      [`POST ${MESSAGES} HTTP/1.1\r\nhost: parley\r\n`, 401],
      [
        `POST ${MESSAGES} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${await parley.key()}\r\ncontent-type: application/json\r\n`,
        413,
      ],
    ] as const
    const sockets = heads.map(() => connect(Number(port), hostname))
    for (const socket of sockets) {
      socket.write('GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n')
      await once(socket, 'data')
    }
    const stopped = parley.stop()
    clock.advance(LISTEN_MS)
    while (await isAccepted(parley.url)) {}
    // The server still reads this much of a rejected body while the clock stands still.
    const bytes = 1_900_000
    for (const [at, socket] of sockets.entries()) {
      const [head, status] = heads[at] ?? []
      socket.write(`${head}content-length: ${bytes}\r\n\r\n`)
      const [response] = await once(socket, 'data')
      assert.match(String(response), new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*connection: close`, 'i'))
      socket.resume().end(Buffer.alloc(bytes, 'x'))
      await finished(socket)
    }
    clock.advance(LAST_REQUESTS_MS)
    assert.equal((await waiting).status, 202)
    models.release()
    await stopped
  })

  test('without it, the listener closes at once', async (t) => {
    const { parley } = await startStage(t)
    const stopped = parley.stop()
    await assert.rejects(parley.get('/readyz'))
    await stopped
  })

  test('what was paid for before a stop is kept: the repair continues with the first answer', async (t) => {
    const schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] }
    const before = await startScene(t)
    const { caller, models } = before
    models.script = () => (models.completions().length === 1 ? reply.json({ a: 'x' }) : reply.stall())
    const id = await caller.enqueueOne({ response_format: { format: 'json', schema } })
    await models.received(2)
    await stopAtOnce(before)
    models.script = () => reply.json({ a: 1 })
    const next = caller.at((await startStage(t, { after: before })).parley)
    const { result, usage } = granted(await next.read(id, '?include=usage&wait=10'), 200)
    assert.deepEqual([result.response_content, usage.calls], [{ a: 1 }, 3])
    const [first, , third] = models.completions()
    assert.equal(first?.body.messages.length, 1)
    assert.equal(third?.body.messages.at(-2)?.role, 'assistant')
  })
})
