/** Tests requests that create one job and get its answer in the same response (SPEC §4.3). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, failed, granted, invalid, refused, timedOut } from './expect.ts'
import { pendingResponsesAre, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'

onEachStore(() => {
  test('4.3 the time in which the tokens of a job are counted is part of its timeout', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key('user_free')
    const { run } = CpuPool.prototype
    function runSlowly(this: CpuPool, ...given: Parameters<CpuPool['run']>) {
      clock.advance(40_000)
      return run.apply(this, given)
    }
    t.mock.method(CpuPool.prototype, 'run', runSlowly, { times: 1 })
    const messages = [{ role: 'user', content: 'one word after the other '.repeat(1000) }]
    const answer = parley.post(MESSAGES, job({ messages, timeout: 60 }), key)
    await models.received(1)
    clock.advance(20_000)
    timedOut(await answer)
  })

  test('4.3 200 with exactly the completed job, the same object as a read', async (t) => {
    const { parley, clock } = await startStage(t, { script: () => reply.text('Hi.') })
    const key = await parley.key()
    const answer = await parley.post(MESSAGES, job(), key)
    assert.equal(completed(answer), 'Hi.')
    const id = answer.body.data.job_id
    assert.deepEqual(answer.body, {
      success: true,
      message: 'The job is completed.',
      data: {
        status: 'completed',
        job_id: id,
        created_at: Math.floor(clock.nowMs() / 1000),
        result: { response_content: 'Hi.' },
        error: null,
      },
    })
    const read = await parley.get(`${MESSAGES}/${id}`, key)
    assert.equal(read.text, answer.text)
  })

  test('4.3 200 for a job that fails within the wait: status failed, and the error', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.refusal('No.') })
    const key = await parley.key()
    const answer = await parley.post(MESSAGES, job(), key)
    assert.equal(failed(answer).code, 'content_policy_violation')
    const read = await parley.get(`${MESSAGES}/${answer.body.data.job_id}`, key)
    assert.equal(read.text, answer.text)
  })

  for (const [name, seconds, over] of [
    ['30, the least', 30, { timeout: 30 }],
    ['90, the default', 90, {}],
    ['120, the most', 120, { timeout: 120 }],
  ] as const) {
    test(`4.3 202 with status timeout after ${name} seconds, and the job is then read by polling`, async (t) => {
      const { parley, models, clock } = await startStage(t, { script: () => reply.stall() })
      const key = await parley.key()
      const waiting = parley.post(MESSAGES, job(over), key)
      await models.received(1)
      clock.advance(seconds * 1000 - 1)
      assert.ok(clock.pending().includes(1), 'the wait ended early')
      clock.advance(1)
      const id = timedOut(await waiting)
      assert.equal((await parley.get(`${MESSAGES}/${id}`, key)).body.data.status, 'assigned')
      models.release()
      assert.equal(completed(await parley.ended(id, key)), 'echo: Hello')
    })
  }

  test('4.3 a job that fails after the wait is failed when it is read', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: () => reply.stall(reply.status(400)) })
    const key = await parley.key()
    const waiting = parley.post(MESSAGES, job(), key)
    await models.received(1)
    clock.advance(90_000)
    const id = timedOut(await waiting)
    models.release()
    assert.equal(failed(await parley.ended(id, key)).code, 'model_error')
  })

  test('4.3 400 for an invalid parameter, named without an index, and no job is created', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const answer = await parley.post(MESSAGES, job({ messages: [] }), key)
    invalid(answer, 'messages: must contain at least one message whose role is user')
    invalid(await parley.post(MESSAGES, [job()], key), 'the body must be an object')
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
  })

  test('4.3 401 before everything else', async (t) => {
    const { parley } = await startStage(t)
    refused(await parley.post(MESSAGES, 'no JSON'), 401)
  })

  test('4.3 403 for a free-tier caller that asks for gpt-5, and no job is created', async (t) => {
    const { parley } = await startStage(t)
    const answer = await parley.post(MESSAGES, job({ model: 'gpt-5' }), await parley.key('user_free'))
    assert.deepEqual(answer.body, {
      success: false,
      message: 'Insufficient permissions: tier user_free cannot use model gpt-5.',
    })
    refused(answer, 403)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
  })

  test('4.3 500 says nothing of its cause', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.accept = () => Promise.reject(new Error('a bug in the store'))
    const answer = await parley.post(MESSAGES, job(), key)
    assert.deepEqual(answer.body, { success: false, message: 'Internal server error.' })
    refused(answer, 500)
  })

  test('4.3 503 with Retry-After when the job cannot be stored, though the model has answered', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.accept = () => Promise.reject(new StoreUnavailable('the disk is full'))
    const answer = await parley.post(MESSAGES, job(), key)
    assert.match(refused(answer, 503).details ?? '', /^Nothing was created/)
    assert.equal(answer.headers.get('retry-after'), '1')
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
    assert.match((await parley.get('/metrics')).text, /^parley_database_rejections_total 1$/m)
  })

  test('4.3 503 for what too many queued writes leave no room for, and each 200 is stored', async (t) => {
    const { parley } = await startStage(t, { settings: { limits: { queued_writes: 1 } } })
    const key = await parley.key()
    // A key's first use is stored by a separate write, which must be over, because only one write may wait in this test.
    granted(await parley.get('/api/v1/me', key), 200)
    while ((await parley.store.listKeys())[0]?.usedAtMs === null);
    completed(await parley.post(MESSAGES, job(), key))
    const database = await openDatabase(t, parley)
    // The test holds the write lock like another process, so some writes are in progress, one may wait, and the others are
    // rejected.
    const letGo = await database.holdWrites()
    const answers = Array.from({ length: 60 }, (_, index) =>
      parley.post(MESSAGES, job({ messages: [{ role: 'user', content: `${index}` }] }), key),
    )
    const first = await Promise.race(answers)
    assert.match(refused(first, 503).details ?? '', /^Nothing was created/)
    await letGo()
    const all = await Promise.all(answers)
    const good = all.filter(({ status }) => status === 200)
    assert.ok(good.length >= 1)
    for (const answer of all) if (answer.status !== 200) refused(answer, 503)
    assert.equal(await database.jobCount(), 1 + good.length)
  })

  test('4.3 the caller hangs up: the wait ends, and the job goes on and stays readable', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const caller = new AbortController()
    const headers = { 'content-type': 'application/json', 'x-api-key': key }
    const body = JSON.stringify(job())
    const waiting = parley.request(MESSAGES, { method: 'POST', headers, body, signal: caller.signal })
    await models.received(1)
    assert.match((await parley.get('/metrics')).text, /^parley_waiters 1$/m)
    const [id] = await jobsStored(t, await openDatabase(t, parley), 1)
    caller.abort()
    await assert.rejects(waiting)
    await pendingResponsesAre(t, parley, 0)
    models.release()
    assert.ok(id)
    assert.equal(completed(await parley.ended(id, key)), 'echo: Hello')
  })
})
