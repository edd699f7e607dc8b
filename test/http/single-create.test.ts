/** Tests requests that create one job and get its answer in the same response (SPEC §4.3). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { idOf, MESSAGES, shareStage, startScene } from './caller.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, failed, invalid, refused, timedOut } from './expect.ts'
import { pendingResponsesAre } from './stage.ts'

onEachStore(async () => {
  const begin = await shareStage()

  test('4.3 the time in which the tokens of a job are counted is part of its timeout', async (t) => {
    const { caller, models, clock } = await begin(t, () => reply.stall(), 'user_free')
    const { run } = CpuPool.prototype
    function runSlowly(this: CpuPool, ...given: Parameters<CpuPool['run']>) {
      clock.advance(40_000)
      return run.apply(this, given)
    }
    t.mock.method(CpuPool.prototype, 'run', runSlowly, { times: 1 })
    const answer = caller.ask('one word after the other '.repeat(1000), { timeout: 60 })
    await models.received(1)
    clock.advance(20_000)
    timedOut(await answer)
  })

  test('4.3 200 with exactly the completed job, the same object as a read', async (t) => {
    const { caller } = await begin(t, () => reply.text('Hi.'))
    const answer = await caller.create()
    assert.equal(completed(answer), 'Hi.')
    assert.equal((await caller.read(idOf(answer))).text, answer.text)
  })

  test('4.3 200 for a job that fails within the wait: status failed, and the error', async (t) => {
    const { caller } = await begin(t, () => reply.refusal('No.'))
    const answer = await caller.create()
    assert.equal(failed(answer).code, 'content_policy_violation')
    assert.equal((await caller.read(idOf(answer))).text, answer.text)
  })

  for (const [name, seconds, over] of [
    ['30, the least', 30, { timeout: 30 }],
    ['90, the default', 90, {}],
    ['120, the most', 120, { timeout: 120 }],
  ] as const) {
    test(`4.3 202 with status timeout after ${name} seconds, and the job is then read by polling`, async (t) => {
      const { caller, models, clock } = await begin(t, () => reply.stall())
      const waiting = caller.create(over)
      await models.received(1)
      clock.advance(seconds * 1000 - 1)
      assert.ok(clock.pending().includes(1), 'the wait ended early')
      clock.advance(1)
      const id = timedOut(await waiting)
      assert.equal((await caller.read(id)).body.data.status, 'assigned')
      models.release()
      assert.equal(completed(await caller.ended(id)), 'echo: Hello')
    })
  }

  test('4.3 a job that fails after the wait is failed when it is read', async (t) => {
    const { caller, models, clock } = await begin(t, () => reply.stall(reply.status(400)))
    const waiting = caller.create()
    await models.received(1)
    clock.advance(90_000)
    const id = timedOut(await waiting)
    models.release()
    assert.equal(failed(await caller.ended(id)).code, 'model_error')
  })

  test('4.3 400 for an invalid parameter, named without an index, and no job is created', async (t) => {
    const { caller } = await begin(t)
    invalid(
      await caller.create({ messages: [] }),
      /^messages: must contain at least one message whose role is/,
    )
    invalid(await caller.post(MESSAGES, [job()]), 'the body must be an object')
    assert.deepEqual(await caller.jobIds(), [])
  })

  test('4.3 403 for a free-tier caller that asks for gpt-5, and no job is created', async (t) => {
    const { caller } = await begin(t, undefined, 'user_free')
    assert.deepEqual(refused(await caller.create({ model: 'gpt-5' }), 403), {
      message: 'Insufficient permissions: tier user_free cannot use model gpt-5.',
      details: undefined,
    })
    assert.deepEqual(await caller.jobIds(), [])
  })

  test('4.3 503 for what too many queued writes leave no room for, and each 200 is stored', async (t) => {
    const { parley, caller } = await startScene(t, { settings: { limits: { queued_writes: 1 } } })
    // A key's first use is stored by a separate write, which must be over, because only one write may wait in this test.
    await caller.me()
    while ((await parley.store.listKeys())[0]?.usedAtMs === null);
    completed(await caller.create())
    const database = await openDatabase(t, parley)
    // The test holds the write lock like another process, so some writes are in progress, one may wait, and the others are
    // rejected.
    const letGo = await database.holdWrites()
    const answers = Array.from({ length: 60 }, (_, index) => caller.ask(`${index}`))
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
    const { parley, caller, models } = await startScene(t, { script: () => reply.stall() })
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json', 'x-api-key': caller.key }
    const body = JSON.stringify(job())
    const waiting = parley.request(MESSAGES, { method: 'POST', headers, body, signal: leaving.signal })
    await models.received(1)
    await pendingResponsesAre(t, parley, 1)
    const [id] = await jobsStored(t, await openDatabase(t, parley), 1)
    leaving.abort()
    await assert.rejects(waiting)
    await pendingResponsesAre(t, parley, 0)
    models.release()
    assert.equal(completed(await caller.ended(id)), 'echo: Hello')
  })
})
