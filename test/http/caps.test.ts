/** Tests monthly caps, including money, quotas of open jobs and stored bytes, and suspended accounts, as callers see them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Reply, reply, type Script } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { eventually } from '../support/eventually.ts'
import { type Caller, callerOf, idOf, MESSAGES, startScene } from './caller.ts'
import { completed, granted, invalid, refused } from './expect.ts'
import { answering, billing, priced, pricedSettings } from './priced-jobs.ts'
import { UNLIMITED_READS } from './stage.ts'

/** A node applies a changed cap, quota or suspension within this many milliseconds. */
const FRESH_MS = 2000
/** A node refreshes its sums of stored bytes after this many milliseconds at the earliest. */
const PAUSE_MS = 100
const RESETS = 'The cap resets at 2026-02-01T00:00:00Z.'
const ONCE = { 'idempotency-key': 'once' }
const KEY_REUSED =
  'Idempotency-Key: was already used with a different request; use a new key for each new request.'
const STALL = () => reply.stall()

type Limits = Readonly<Record<string, number>>

const start = (t: TestContext, limits: Limits = {}, script: Script = () => undefined) =>
  startScene(t, {
    settings: { tiers: { ...UNLIMITED_READS, user_go: { ...UNLIMITED_READS.user_go, ...limits } } },
    script,
    tier: 'user_go',
    account: 'acme',
  })

/** The jobs reserve the most that they may cost, and free the rest when they end. */
async function startPriced(t: TestContext, cap: number, script: () => Reply = () => answering(1)) {
  const scene = await startScene(t, {
    settings: pricedSettings('user_go', cap),
    script,
    tier: 'user_go',
    account: 'acme',
  })
  const create = (tokens: number) => scene.caller.post(MESSAGES, priced(tokens))
  return { ...scene, create }
}

onEachStore(() => {
  test('a cap on jobs: 403 that names it and when it resets; nothing is created, and reads continue', async (t) => {
    const { parley, caller, clock } = await start(t, { max_monthly_jobs: 4 })
    const other = await callerOf(parley)
    const first = idOf(await caller.create({}, ONCE))
    const [id] = await caller.enqueue([job(), job()])
    const { message } = refused(await caller.batch([job(), job()]), 403)
    const used = 'tier user_go allows 4 jobs per month, and 3 are used'
    assert.equal(message, `Monthly cap reached: ${used}. ${RESETS}`)
    completed(await caller.create())
    refused(await caller.create(), 403)
    assert.equal(idOf(await caller.create({}, ONCE)), first, 'a repeated request creates nothing')
    granted(await caller.read(id), 200)
    completed(await other.create())
    clock.advance(FRESH_MS)
    refused(await caller.create(), 403)
    const { limits, usage } = await caller.me()
    assert.deepEqual([limits.max_monthly_jobs, usage.jobs], [4, 4])
  })

  test('403 names the quota of open jobs and its use; jobs that end make room', async (t) => {
    const { parley, caller, models, clock } = await start(t, { max_open_jobs: 3 }, STALL)
    const other = await callerOf(parley, 'user_go', 'other')
    const ids = await caller.enqueue([job(), job()])
    clock.advance(PAUSE_MS)
    refused(await caller.batch([job(), job()]), 403, {
      message:
        'Quota reached: tier user_go allows 3 open jobs, account acme has 2, and this request would add 2.',
      details: 'Wait until some of them have finished. A batch is rejected as a whole.',
    })
    await caller.enqueueOne()
    refused(await caller.create(), 403)
    await other.enqueue([job(), job(), job()])
    const { limits, open_jobs } = await caller.me()
    assert.deepEqual([limits.max_open_jobs, limits.max_stored_bytes, open_jobs], [3, 10_737_418_240, 3])

    models.script = () => undefined
    models.release()
    for (const id of ids) completed(await caller.ended(id))
    clock.advance(PAUSE_MS)
    completed(await caller.create())
    const { text } = await parley.get('/metrics')
    assert.match(text, /^parley_quota_rejections_total\{quota="open_jobs"\} 2$/m)
  })

  for (const [name, limits] of [
    ['cap', { max_monthly_jobs: 2 }],
    ['quota', { max_open_jobs: 2 }],
  ] as const) {
    test(`a request that repeats an accepted one gets its jobs although the ${name} is reached`, async (t) => {
      const { caller } = await start(t, limits, STALL)
      const ids = await caller.enqueue([job(), job()], ONCE)
      refused(await caller.create(), 403)
      refused(await caller.batch([job()], { 'idempotency-key': 'new' }), 403)
      assert.deepEqual(await caller.enqueue([job(), job()], ONCE), ids)
      invalid(await caller.batch([job()], ONCE), KEY_REUSED)
    })
  }

  test('jobs that fail their checks take nothing of a cap', async (t) => {
    const { caller } = await start(t, { max_monthly_jobs: 1 })
    refused(await caller.create({ model: 'none' }), 400)
    refused(await caller.batch([job(), job()]), 403)
    completed(await caller.create())
  })

  for (const [name, limits, send, status] of [
    ['a cap on jobs', { max_monthly_jobs: 5 }, (caller: Caller) => caller.create(), 200],
    ['the quota of open jobs', { max_open_jobs: 5 }, (caller: Caller) => caller.batch([job()]), 202],
  ] as const) {
    test(`concurrent creates do not exceed ${name}`, async (t) => {
      const { caller } = await start(t, limits, status === 202 ? STALL : undefined)
      const answers = await Promise.all(Array.from({ length: 20 }, () => send(caller)))
      const statuses = answers.map((answer) => answer.status).toSorted()
      assert.deepEqual(statuses, [...Array(5).fill(status), ...Array(15).fill(403)])
      if (status === 202) assert.equal((await caller.me()).open_jobs, 5)
    })
  }

  test('a create over the quota calls no model, and takes nothing of a monthly cap', async (t) => {
    const { caller, models } = await start(t, { max_open_jobs: 0, max_monthly_jobs: 1 })
    for (let time = 0; time < 3; time++) {
      refused(await caller.create(), 403, { message: /^Quota reached/ })
    }
    assert.deepEqual([models.requests.length, (await caller.me()).usage.jobs], [0, 0])
  })

  test('a cap on tokens: what is used up is known when jobs end, at the latest after two seconds', async (t) => {
    const { caller, clock } = await start(t, { max_monthly_tokens: 10 })
    const { limits } = await caller.me()
    assert.deepEqual([limits.max_monthly_jobs, limits.max_monthly_tokens], [null, 10])
    // The model server counts characters as tokens: 5 of input, and the echo as output.
    completed(await caller.create())
    clock.advance(FRESH_MS)
    const { message } = refused(await caller.create(), 403)
    const used = 'tier user_go allows 10 tokens per month, and 16 are used'
    assert.equal(message, `Monthly cap reached: ${used}. ${RESETS}`)
  })

  test('stored bytes: an answer may pass the quota, then creates are rejected until jobs are deleted', async (t) => {
    const { parley, caller, clock } = await start(t, { max_stored_bytes: 5000 })
    const { message, details } = refused(await caller.ask('x'.repeat(5000)), 403)
    const allowed = 'tier user_go allows 5000 stored bytes, account acme has 0'
    assert.match(message, new RegExp(`^Quota reached: ${allowed}, and this request would add 50\\d\\d\\.$`))
    assert.match(details ?? '', /until the job expires or is deleted/)
    // The model echoes the text, so the text is stored twice.
    const id = idOf(await caller.ask('x'.repeat(4000)))
    clock.advance(PAUSE_MS)
    refused(await caller.create(), 403)
    const { stored_bytes, limits } = await caller.me()
    assert.ok(stored_bytes > 8000, `${stored_bytes} bytes`)
    assert.equal(limits.max_stored_bytes, 5000)
    assert.equal(await parley.store.deleteJob(id), 'deleted')
    clock.advance(PAUSE_MS)
    completed(await caller.create())
  })

  test("an account's own cap overrides its tier's, within two seconds", async (t) => {
    const { parley, caller, clock } = await start(t, { max_monthly_jobs: 1 })
    completed(await caller.create())
    refused(await caller.create(), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyJobs: 2 })
    clock.advance(FRESH_MS)
    completed(await caller.create())
    refused(await caller.create(), 403, { message: /account acme allows 2 jobs per month, and 2 are used/ })
  })

  test("an account's own quota overrides its tier's, within two seconds", async (t) => {
    const { parley, caller, clock } = await start(t, { max_open_jobs: 0 })
    refused(await caller.create(), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, openJobs: 2 })
    clock.advance(FRESH_MS)
    completed(await caller.create())
    await parley.store.setCaps('acme', { ...NO_CAPS, openJobs: 'none' })
    clock.advance(FRESH_MS)
    assert.equal((await caller.me()).limits.max_open_jobs, null)
  })

  test('a suspended account reads, and creates nothing, within two seconds', async (t) => {
    const { parley, caller, clock } = await start(t)
    const id = await caller.enqueueOne()
    await parley.store.suspend('acme', clock.nowMs())
    clock.advance(FRESH_MS)
    refused(await caller.create(), 403, {
      message: 'Account acme is suspended: it can read its jobs, but cannot create new ones.',
    })
    refused(await caller.batch([job()]), 403)
    assert.equal(completed(await caller.ended(id)), 'echo: Hello')
    assert.equal((await caller.me()).suspended, true)
    await parley.store.suspend('acme', null)
    clock.advance(FRESH_MS)
    completed(await caller.create())
  })

  test('open jobs count with what they may cost, finished ones with what they cost', async (t) => {
    const { caller, models, create } = await startPriced(t, 0.01, () => reply.stall(answering(40)))
    const first = await caller.enqueue([priced(500), priced(400)])
    refused(await caller.batch([priced(50), priced(51)]), 403, {
      message:
        'Monthly cap reached: tier user_go allows a cost of 0.01 per month, 0.009 are used, and this request may cost 0.00101. The cap resets at 2026-02-01T00:00:00Z.',
      details: /options\.max_tokens limits that/,
    })
    const last = await caller.enqueue([priced(50), priced(50)])
    refused(await create(1), 403)
    const me = await caller.me()
    assert.deepEqual([me.limits.max_monthly_cost, me.reserved_cost, me.usage.cost], [0.01, 10_000, undefined])
    await models.received(4)
    models.script = () => answering(40)
    models.release()
    for (const id of [...first, ...last]) completed(await caller.ended(id))
    completed(await create(840))
  })

  test('a model without a price, a cached answer and a repeated request are accepted over the cap', async (t) => {
    const { parley, caller, create } = await startPriced(t, 0.001, () => answering(100))
    const first = priced(100)
    const keyed = { 'idempotency-key': 'one' }
    const id = idOf(await caller.post(MESSAGES, first, keyed))
    refused(await create(1), 403)
    assert.equal(idOf(await caller.post(MESSAGES, first, keyed)), id)
    completed(await caller.post(MESSAGES, first))
    completed(await caller.create({ model: 'free' }))
    const request = { model: 'priced', messages: [{ role: 'user', content: 'Hello' }] }
    const authorization = `Bearer ${caller.key}`
    const v1 = await parley.post('/v1/chat/completions', request, undefined, { authorization })
    assert.deepEqual([v1.status, v1.body.error.code], [429, 'insufficient_quota'])
  })

  if (storeName() === 'Postgres') {
    test('while a node of an earlier version is alive, nothing is counted in money, and the log reports it', async (t) => {
      const { addEarlierNode } = await import('./earlier-node.ts')
      const { parley, caller, create } = await startPriced(t, 0)
      refused(await create(1), 403)
      const endNode = await addEarlierNode(t, parley, 'options')
      const until = (status: number) =>
        eventually(
          () => caller.post(`${MESSAGES}?include=usage`, priced(1)),
          (answer) => answer.status === status,
          { signal: t.signal },
        )
      assert.equal('cost' in granted(await until(200), 200).usage, false)
      const warnings = parley.log.filter(({ message }) =>
        /prices and caps in money have no effect/.test(message),
      )
      assert.equal(warnings.length, 1)
      await endNode()
      refused(await until(403), 403)
    })
  }

  test("an account's own cap in money overrides its tier's", async (t) => {
    const { parley, create, clock } = await startPriced(t, 0)
    refused(await create(1), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 20 })
    clock.advance(FRESH_MS)
    completed(await create(1))
    completed(await create(1))
    refused(await create(1), 403, { message: /account acme allows a cost of 0.00002 / })
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    clock.advance(FRESH_MS)
    completed(await create(1))
  })

  test('a thousand creates, 200 at a time, cost no more than the cap, to the millionth', async (t) => {
    const { script, cost } = billing()
    const { caller, create } = await startPriced(t, 0.005, script)
    const callers = Array.from({ length: 200 }, async () => {
      const own: Answer[] = []
      for (let sent = 0; sent < 5; sent++) own.push(await create(7))
      return own
    })
    const answers = (await Promise.all(callers)).flat()
    const accepted = answers.filter(({ status }) => status === 200)
    assert.equal(answers.filter(({ status }) => status === 403).length, 1000 - accepted.length)
    // Even if each job cost the most that it may cost, 71 jobs would fit.
    assert.ok(accepted.length >= 71, `${accepted.length}`)
    const { usage, reserved_cost } = await caller.me()
    assert.deepEqual([usage.cost, reserved_cost], [cost(), 0])
    assert.ok(cost() <= 5000)
    while ((await create(7)).status === 200);
    assert.ok(cost() > 5000 - 70 && cost() <= 5000, `${cost()}`)
  })
})
