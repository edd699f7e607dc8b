/** Tests caps in money: jobs reserve the most that they may cost, and free the rest when they end. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { isPostgres } from '../../src/store/open.ts'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { eventually } from '../support/eventually.ts'
import { completed, enqueued, granted, refused } from './expect.ts'
import { startStage, UNLIMITED_READS } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = `${MESSAGES}/batches`
const FRESH_MS = 2000
/** Input is free, so that the reserved costs of jobs are round numbers. */
const settings = (cap: number) => ({
  currency: 'EUR',
  models: {
    priced: { price: { input: 0, output: 10 }, targets: [{ upstream: 'openai', model: 'one' }] },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
  tiers: { ...UNLIMITED_READS, user_go: { ...UNLIMITED_READS.user_go, max_monthly_cost: cap } },
})
/**
 * The seed of the newest job: each job has another, so that none is answered from the cache. A job reserves 10 * `tokens`
 * millionths of the currency.
 */
let seed = 0
const ask = (tokens: number) => job({ model: 'priced', options: { max_tokens: tokens, seed: ++seed } })
const answering = (tokens: number): Reply =>
  reply.status(200, {
    body: {
      choices: [{ index: 0, message: { role: 'assistant', content: 'Amur' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 30, completion_tokens: tokens, total_tokens: 30 + tokens },
    },
  })

onEachStore(() => {
  test('open jobs count with what they may cost, finished ones with what they cost', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: settings(0.01),
      script: () => reply.stall(answering(40)),
    })
    const key = await parley.key('user_go', 'acme')
    const first = enqueued(await parley.post(BATCHES, [ask(500), ask(400)], key), 2)
    const over = refused(await parley.post(BATCHES, [ask(50), ask(51)], key), 403)
    assert.equal(
      over.message,
      'Monthly cap reached: tier user_go allows a cost of 0.01 per month, 0.009 are used, and this request may cost 0.00101. The cap resets at 2026-02-01T00:00:00Z.',
    )
    assert.match(over.details ?? '', /options\.max_tokens limits that/)
    const last = enqueued(await parley.post(BATCHES, [ask(50), ask(50)], key), 2)
    refused(await parley.post(MESSAGES, ask(1), key), 403)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([me.limits.max_monthly_cost, me.reserved_cost, me.usage.cost], [0.01, 10_000, undefined])
    await models.received(4)
    models.script = () => answering(40)
    models.release()
    // Each of these jobs costs 400.
    for (const id of [...first, ...last]) completed(await parley.ended(id ?? '', key))
    completed(await parley.post(MESSAGES, ask(840), key))
  })

  test('a model without a price, a cached answer and a repeated request are accepted over the cap', async (t) => {
    const { parley } = await startStage(t, { settings: settings(0.001), script: () => answering(100) })
    const key = await parley.key('user_go')
    const first = ask(100)
    const keyed = { 'idempotency-key': 'one' }
    const { job_id: id } = granted(await parley.post(MESSAGES, first, key, keyed), 200)
    refused(await parley.post(MESSAGES, ask(1), key), 403)
    assert.equal(granted(await parley.post(MESSAGES, first, key, keyed), 200).job_id, id)
    completed(await parley.post(MESSAGES, first, key))
    completed(await parley.post(MESSAGES, job({ model: 'free' }), key))
    const v1 = await parley.post(
      '/v1/chat/completions',
      { model: 'priced', messages: [{ role: 'user', content: 'Hello' }] },
      undefined,
      { authorization: `Bearer ${key}` },
    )
    assert.equal(v1.status, 429)
    assert.equal(v1.body.error.code, 'insufficient_quota')
  })

  test('while a node of an earlier version is alive, nothing is counted in money, and the log reports it', async (t) => {
    const { parley } = await startStage(t, { settings: settings(0), script: () => answering(1) })
    if (!isPostgres(parley.database)) return
    const key = await parley.key('user_go')
    refused(await parley.post(MESSAGES, ask(1), key), 403)
    const database = await connectPostgres(t, parley.database)
    await database.query(
      `insert into nodes (node, lease_until, features) values ('earlier', clock_timestamp() + interval '600 s', 'options')`,
    )
    const until = (status: number) =>
      eventually(
        () => parley.post(`${MESSAGES}?include=usage`, ask(1), key),
        (answer) => answer.status === status,
        { signal: t.signal },
      )
    const { usage } = granted(await until(200), 200)
    assert.equal('cost' in usage, false)
    const warnings = parley.log.filter(({ message }) =>
      /prices and caps in money have no effect/.test(message),
    )
    assert.equal(warnings.length, 1)
    await database.query("delete from nodes where node = 'earlier'")
    refused(await until(403), 403)
  })

  test("an account's own cap overrides its tier's", async (t) => {
    const { parley, clock } = await startStage(t, { settings: settings(0), script: () => answering(1) })
    const key = await parley.key('user_go', 'acme')
    refused(await parley.post(MESSAGES, ask(1), key), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 20 })
    clock.advance(FRESH_MS)
    completed(await parley.post(MESSAGES, ask(1), key))
    completed(await parley.post(MESSAGES, ask(1), key))
    assert.match(
      refused(await parley.post(MESSAGES, ask(1), key), 403).message,
      /account acme allows a cost of 0.00002 /,
    )
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    clock.advance(FRESH_MS)
    completed(await parley.post(MESSAGES, ask(1), key))
  })

  test('a thousand creates, 200 at a time, cost no more than the cap, to the millionth', async (t) => {
    let paid = 0
    const script = () => {
      const tokens = 1 + (paid % 7)
      paid += 10 * tokens
      return answering(tokens)
    }
    const { parley } = await startStage(t, { settings: settings(0.005), script })
    const key = await parley.key('user_go')
    // 200 callers at a time, because a busy listener resets further connections.
    const callers = Array.from({ length: 200 }, async () => {
      const own: Answer[] = []
      for (let sent = 0; sent < 5; sent++) own.push(await parley.post(MESSAGES, ask(7), key))
      return own
    })
    const answers = (await Promise.all(callers)).flat()
    const accepted = answers.filter(({ status }) => status === 200)
    assert.equal(answers.filter(({ status }) => status === 403).length, 1000 - accepted.length)
    // Even if each job cost the most that it may cost, 71 jobs would fit.
    assert.ok(accepted.length >= 71, `${accepted.length}`)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(me.usage.cost, paid)
    assert.ok(paid <= 5000)
    assert.equal(me.reserved_cost, 0)
    // Creates jobs until what is left of the cap is too little for one more.
    while ((await parley.post(MESSAGES, ask(7), key)).status === 200);
    assert.ok(paid > 5000 - 70 && paid <= 5000, `${paid}`)
  })
})
