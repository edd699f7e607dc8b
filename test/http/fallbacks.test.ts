/** Tests waits that end without a result, with 408, 503 or 404: the caller always gets an ID (SPEC §4.3). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, enqueued, granted, timedOut } from './expect.ts'
import { openLine, readAnswer } from './raw-http.ts'
import { pendingResponsesAre, startStage, stopAtOnce } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

onEachStore(() => {
  test('4.3 503: too many requests wait already, so the job is created and 202 returned at once', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: { sync: { max_waiters: 1 } },
      script: () => reply.stall(),
    })
    const key = await parley.key()
    const first = parley.post(MESSAGES, job(), key)
    await models.received(1)
    const id = timedOut(await parley.post(MESSAGES, job(), key))
    await models.received(2)
    models.release()
    completed(await first)
    completed(await parley.ended(id, key))
    // The earlier wait has ended, so one waiting slot is free.
    models.script = () => undefined
    completed(await parley.post(MESSAGES, job(), key))
  })

  test('4.3 however many requests of one account wait, one of another account gets its answer', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: { sync: { max_waiters: 4 } },
      script: () => reply.stall(),
    })
    const [crowd, other] = [await parley.key('user_max', 'crowd'), await parley.key('user_free', 'other')]
    const ofCrowd = [1, 2, 3, 4, 5].map(() => parley.post(MESSAGES, job(), crowd))
    await models.received(5)
    const single = parley.post(MESSAGES, job(), other)
    await models.received(6)
    models.release()
    completed(await single)
    const statuses = (await Promise.all(ofCrowd)).map(({ status }) => status)
    assert.deepEqual(statuses.toSorted(), [200, 200, 200, 202, 202])
  })

  test('4.3 503: the server stops, so those who wait get 202, and their jobs run after the next start', async (t) => {
    const stage = await startStage(t, { script: () => reply.stall() })
    const { parley, models } = stage
    const key = await parley.key()
    const waiting = [parley.post(MESSAGES, job(), key), parley.post(MESSAGES, job(), key)]
    await models.received(2)
    const stopped = stopAtOnce(stage)
    const ids = (await Promise.all(waiting)).map(timedOut)
    await stopped
    models.script = () => undefined
    const next = await startStage(t, { after: stage })
    for (const id of ids) assert.equal(completed(await next.parley.ended(id, key)), 'echo: Hello')
  })

  test('4.3 503: a request that arrives while the server stops is created, and answered 202', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const body = JSON.stringify(job())
    const line = openLine(parley)
    const head = [
      'POST /api/v1/messages HTTP/1.1',
      'host: parley',
      `x-api-key: ${key}`,
      'expect: 100-continue',
    ]
    head.push('content-type: application/json', `content-length: ${body.length}`)
    line.send(`${head.join('\r\n')}\r\n\r\n`)
    await line.until(/100 Continue/)
    const stopped = parley.stop()
    line.send(body)
    const id = timedOut(readAnswer(await line.closed))
    await stopped
    const next = await startStage(t, { after: stage })
    assert.equal(completed(await next.parley.ended(id, key)), 'echo: Hello')
  })

  test('4.3 404: the job vanished while it was waited for, so it is created again, and 202 has the new id', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const waiting = parley.post(MESSAGES, job(), key)
    await models.received(1)
    const database = await openDatabase(t, parley)
    // The call to the model starts before the job is stored, so the test waits for the storage, too.
    const [vanished] = await jobsStored(t, database, 1)
    await database.deleteJobs()
    models.script = () => undefined
    models.release()
    const id = timedOut(await waiting)
    assert.notEqual(id, vanished)
    assert.equal(completed(await parley.ended(id, key)), 'echo: Hello')
    assert.equal((await parley.get(`${MESSAGES}/${vanished}`, key)).status, 404)
    assert.deepEqual(await database.jobIds(), [id])
    assert.equal(models.requests.length, 2)
  })

  test('4.3 404: whoever repeats the request of a job that has vanished gets one that exists', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const headers = { 'idempotency-key': 'order-1' }
    const first = await parley.post(MESSAGES, job(), key, headers)
    await (await openDatabase(t, parley)).deleteJobs()
    const second = await parley.post(MESSAGES, job(), key, headers)
    assert.equal(completed(second), 'echo: Hello')
    assert.notEqual(second.body.data.job_id, first.body.data.job_id)
    const third = await parley.post(MESSAGES, job(), key, headers)
    assert.deepEqual(third.body, second.body)
  })

  test('4.3 404: a job that vanishes while two wait for it is created again for both', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const headers = { 'idempotency-key': 'order-1' }
    const first = parley.post(MESSAGES, job(), key, headers)
    await models.received(1)
    const second = parley.post(MESSAGES, job(), key, headers)
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
      assert.equal(completed(await parley.ended(timedOut(answer), key)), 'echo: Hello')
    }
  })

  test('3 a released job reads assigned, never pending again', async (t) => {
    const settings = { jobs: { concurrency: 2 } }
    const stage = await startStage(t, { settings, script: () => reply.stall() })
    const key = await stage.parley.key()
    const ids = enqueued(await stage.parley.post(BATCHES, [job(), job()], key), 2)
    await stage.models.received(2)
    await stopAtOnce(stage)
    // The next server runs one job at a time, so the other job stays queued.
    const next = await startStage(t, { settings: { jobs: { concurrency: 1 } }, after: stage })
    await stage.models.received(3)
    for (const id of ids) {
      const data = granted(await next.parley.get(`${MESSAGES}/${id}`, key), 200)
      assert.deepEqual([data.status, data.result, data.error], ['assigned', null, null])
    }
    stage.models.script = () => undefined
    stage.models.release()
    for (const id of ids) completed(await next.parley.ended(id, key))
  })
})
