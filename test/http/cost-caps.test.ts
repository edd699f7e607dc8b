/** Tests caps in money: jobs reserve the most that they may cost, and free the rest when they end. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { eventually } from '../support/eventually.ts'
import { idOf, MESSAGES, startScene } from './caller.ts'
import { completed, granted, refused } from './expect.ts'
import { answering, billing, priced, pricedSettings } from './priced-jobs.ts'

const FRESH_MS = 2000

async function start(t: TestContext, cap: number, script: () => Reply = () => answering(1)) {
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
  test('open jobs count with what they may cost, finished ones with what they cost', async (t) => {
    const { caller, models, create } = await start(t, 0.01, () => reply.stall(answering(40)))
    const first = await caller.enqueue([priced(500), priced(400)])
    const { message, details } = refused(await caller.batch([priced(50), priced(51)]), 403)
    assert.equal(
      message,
      'Monthly cap reached: tier user_go allows a cost of 0.01 per month, 0.009 are used, and this request may cost 0.00101. The cap resets at 2026-02-01T00:00:00Z.',
    )
    assert.match(details ?? '', /options\.max_tokens limits that/)
    const last = await caller.enqueue([priced(50), priced(50)])
    refused(await create(1), 403)
    const me = await caller.me()
    assert.deepEqual([me.limits.max_monthly_cost, me.reserved_cost, me.usage.cost], [0.01, 10_000, undefined])
    await models.received(4)
    models.script = () => answering(40)
    models.release()
    // Each of these jobs costs 400.
    for (const id of [...first, ...last]) completed(await caller.ended(id))
    completed(await create(840))
  })

  test('a model without a price, a cached answer and a repeated request are accepted over the cap', async (t) => {
    const { parley, caller, create } = await start(t, 0.001, () => answering(100))
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
      const { parley, caller, create } = await start(t, 0)
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

  test("an account's own cap overrides its tier's", async (t) => {
    const { parley, create, clock } = await start(t, 0)
    refused(await create(1), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 20 })
    clock.advance(FRESH_MS)
    completed(await create(1))
    completed(await create(1))
    assert.match(refused(await create(1), 403).message, /account acme allows a cost of 0.00002 /)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    clock.advance(FRESH_MS)
    completed(await create(1))
  })

  test('a thousand creates, 200 at a time, cost no more than the cap, to the millionth', async (t) => {
    const { script, cost } = billing()
    const { caller, create } = await start(t, 0.005, script)
    // 200 callers at a time, because a busy listener resets further connections.
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
    // Creates jobs until what is left of the cap is too little for one more.
    while ((await create(7)).status === 200);
    assert.ok(cost() > 5000 - 70 && cost() <= 5000, `${cost()}`)
  })
})
