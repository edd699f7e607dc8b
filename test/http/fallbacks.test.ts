/** Tests waits that end without a result, with 408, 503 or 404: the caller always gets an ID (SPEC §4.3). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { callerOf, idOf, MESSAGES, startScene } from './caller.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, granted, refused, timedOut } from './expect.ts'
import { openLine, readAnswer } from './raw-http.ts'
import { pendingResponsesAre, startStage, stopAtOnce } from './stage.ts'

const ORDER = { 'idempotency-key': 'order-1' }
const STALL = { script: () => reply.stall() }

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
    // The earlier wait has ended, so one waiting slot is free.
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
    // The call of the new job stalls as well. Otherwise the new job could complete before the second caller finds it.
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
})
