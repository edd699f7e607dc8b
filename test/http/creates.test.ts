/** Tests the two creates: one job whose answer is in the same response (SPEC §4.3), and several jobs (SPEC §4.1). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { DEFAULTS } from '../../src/config/settings.ts'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { idOf, MESSAGES, says, shareStage, startScene } from './caller.ts'
import { jobsStored, openDatabase } from './database.ts'
import { completed, failed, invalid, refused, timedOut } from './expect.ts'
import { pendingResponsesAre } from './stage.ts'

const MAX_JOBS = { user_free: 2, user_go: 10, user_pro: 20, user_max: 30 }

onEachStore(() => {
  const begin = shareStage()

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

  for (const [status, answer] of [
    ['completed', reply.text('Hi.')],
    ['failed', reply.refusal('No.')],
  ] as const) {
    test(`4.3 200 with exactly the ${status} job, the same object as a read`, async (t) => {
      const { caller } = await begin(t, () => answer)
      const created = await caller.create()
      const read = await caller.read(idOf(created))
      assert.deepEqual([created.body.data.status, created.text], [status, read.text])
    })
  }

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

  test('4.3 503 for what too many queued writes leave no room for, and each 200 is stored', async (t) => {
    const { parley, caller } = await startScene(t, { settings: { limits: { queued_writes: 1 } } })
    // A separate write stores a key's first use. It must be over, because only one write may wait in this test.
    await caller.me()
    while ((await parley.store.listKeys())[0]?.usedAtMs === null);
    completed(await caller.create())
    const database = await openDatabase(t, parley)
    // The test holds the write lock as another process might. Some writes are then in progress, one may wait, and Parley
    // rejects the others.
    const letGo = await database.holdWrites()
    const answers = Array.from({ length: 60 }, (_, index) => caller.ask(`${index}`))
    const first = await Promise.race(answers)
    refused(first, 503, { details: /^Nothing was created/ })
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

  test('4.1 202 with one identifier per job, in the order of the array', async (t) => {
    const { caller } = await begin(t)
    const words = ['one', 'two', 'three', 'four', 'five']
    const ids = await caller.enqueue(words.map((word) => says(word)))
    for (const [index, id] of ids.entries()) {
      assert.equal(completed(await caller.ended(id)), `echo: ${words[index]}`)
    }
    assert.deepEqual([...ids].sort(), ids)
  })

  for (const tier of Object.keys(DEFAULTS.tiers) as (keyof typeof DEFAULTS.tiers)[]) {
    const most = MAX_JOBS[tier]
    test(`4.1 202 for ${most} jobs of ${tier}, and 403 for one more`, async (t) => {
      const { caller, models } = await begin(t, undefined, tier)
      const { message, details } = refused(await caller.batch(Array(most + 1).fill(job())), 403)
      assert.match(message, /^Maximum jobs per batch request exceeded for /)
      assert.match(message, new RegExp(`${tier}.*at most ${most}, and this batch has ${most + 1}`))
      if (tier === 'user_free') assert.match(message, /free user/)
      assert.equal(details, undefined)
      assert.deepEqual(await caller.jobIds(), [])
      const ids = await caller.enqueue(Array(most).fill(job()))
      await Promise.all(ids.map((id) => caller.ended(id)))
      assert.ok(models.requests.length <= most)
    })
  }

  const bad = job({ messages: [{ role: 'system', content: 'Be brief.' }] })
  const NOT_ARRAY = /^the body must be an array of job creation objects/
  for (const [name, bodies] of [
    [
      'one invalid job, and no job is created',
      [[[job(), job(), bad], 'jobs[2].messages: must contain at least one message whose role is user']],
    ],
    [
      'a batch with several wrong jobs names the first job that breaks a rule',
      [[[job(), job({ model: 'gpt-4' }), job({ model: 'gpt-3' })], /^jobs\[1\]\.model: must be one of /]],
    ],
    [
      'an empty batch, and for a body that is no array',
      [
        [[], 'the body must contain at least one job'],
        ...[job(), 'null', '"text"', '7'].map((body) => [body, NOT_ARRAY] as const),
        [[7], 'jobs[0]: must be an object'],
        [[job(), null], 'jobs[1]: must be an object'],
      ],
    ],
  ] as readonly [string, [unknown, string | RegExp][]][]) {
    test(`4.1 400 for ${name}`, async (t) => {
      const { caller, models } = await begin(t)
      for (const [body, details] of bodies) invalid(await caller.batch(body), details)
      assert.deepEqual([await caller.jobIds(), models.requests.length], [[], 0])
    })
  }

  test('4.1 rule 2: a job that fails is found by reading it, and the others complete', async (t) => {
    const { caller } = await begin(t, ({ text }) => (text.includes('bad') ? reply.status(400) : undefined))
    const [good, bad, better] = await caller.enqueue(['good', 'bad', 'better'].map((word) => says(word)))
    assert.equal(completed(await caller.ended(good)), 'echo: good')
    assert.equal(failed(await caller.ended(bad)).code, 'model_error')
    assert.equal(completed(await caller.ended(better)), 'echo: better')
  })
})
