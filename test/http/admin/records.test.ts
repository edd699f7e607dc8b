/**
 * Tests the admin API's records: usage, the audit log, and `GET /admin/api/usage-events`, which lists what each finished job
 * used. Each job appears there exactly once, in whatever order jobs end.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import type { UsageEvent } from '../../../src/admin/usage-events.ts'
import { reply, type Script } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job } from '../../parley.ts'
import { callerOf, idOf, MESSAGES } from '../caller.ts'
import { completed, granted, invalid, refused } from '../expect.ts'
import { type Admin, shareAdminStage, startAdminScene } from './admin.ts'

/** HTTP headers carry the bytes of UTF-8 text as Latin-1 characters. */
const latin1 = (text: string) => Buffer.from(text).toString('latin1')

/** Usage events omit jobs that are younger than this. */
const VISIBLE_MS = 60_001
const settings = {
  currency: 'EUR',
  models: {
    priced: { price: { input: 2, output: 10 }, targets: [{ upstream: 'openai', model: 'one' }] },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
}
const priced = (over: object = {}) => job({ model: 'priced', message_cache_ttl: 180, ...over })
const saying = (content: string) => priced({ messages: [{ role: 'user', content }] })
const script: Script = ({ body }) =>
  String(body.messages[0]?.content).startsWith('slow') ? reply.stall() : undefined

function feedOf(admin: Admin, filter = '') {
  let after = ''
  return async (limit = 50) => {
    const query = `limit=${limit}${filter}${after && `&after=${after}`}`
    const page = await admin.read(`/usage-events?${query}`)
    after = page.next
    return page as { events: UsageEvent[]; more: boolean; currency?: string }
  }
}

onEachStore(() => {
  const begin = shareAdminStage()

  test('usage is what the jobs used, by month, account and model, a page at a time', async (t) => {
    const { parley, caller, models, admin, clock } = await startAdminScene(t, { account: 'acme' })
    const other = await callerOf(parley, 'user_go', 'other')
    // The model server counts characters as tokens: 5 of input, and 11 of the answer `echo: Hello`.
    await caller.create()
    await caller.create()
    models.script = () => reply.status(400)
    await caller.ask('Wrong')
    models.script = () => undefined
    await other.create({ model: 'gpt-5' })
    clock.jump(31 * 86_400_000)
    await caller.create()
    const mini = { account: 'acme', month: '2026-02', model: 'gpt-5-mini' }
    const once = { jobs: 1, failed_jobs: 0, cache_hits: 0, calls: 1, input_tokens: 5, output_tokens: 11 }
    const all = [
      { ...mini, ...once },
      { ...mini, month: '2026-01', ...once, jobs: 3, failed_jobs: 1, cache_hits: 1, calls: 2 },
      { account: 'other', month: '2026-01', model: 'gpt-5', ...once },
    ]
    assert.deepEqual(await admin.read('/usage'), { usage: all, more: false, next: null })
    const usageOf = async (query: string) => (await admin.read(`/usage?${query}`)).usage
    assert.deepEqual(await usageOf('account=other'), all.slice(2))
    assert.deepEqual(await usageOf('month=2026-01'), all.slice(1))
    const pages: unknown[] = []
    for (let query = 'limit=1', next: string | null = ''; next !== null; query = `limit=1&after=${next}`) {
      const page: Answer['body'] = await admin.read(`/usage?${query}`)
      assert.equal(page.more, page.next !== null)
      pages.push(...page.usage)
      next = page.next
    }
    assert.deepEqual(pages, all)
  })

  test('invalid parameters are rejected by name', async (t) => {
    const { admin } = await begin(t)
    for (const month of ['2026', '2026-13', '2026-1', '26-01', '']) {
      invalid(await admin.get(`/usage?month=${month}`), 'month: must be YYYY-MM')
    }
    for (const after of ['x', '2026-01/acme', '2026-01//gpt-5', '2026-13/acme/gpt-5', '2026-01/acme/%00']) {
      invalid(await admin.get(`/usage?after=${after}`), 'after: must be the `next` of a page')
    }
    invalid(await admin.get('/audit?before=x'), 'before: must be the ID of an audit log entry')
    invalid(await admin.get('/audit?account=%00'), /^account: must match pattern/)
    assert.deepEqual((await admin.read('/usage?month=1999-01')).usage, [])
  })

  test('every action is in the audit log with who did it and its outcome, without secrets', async (t) => {
    const { caller, admin, account, clock } = await begin(t)
    const alice = { 'x-parley-operator': 'alice' }
    const id = idOf(await caller.ask('CANARY'))
    const made = granted(await admin.post('/keys', { account, tier: 'user_max' }, alice), 201)
    refused(await admin.post('/keys', { account, tier: 'user_go' }, alice), 409)
    await admin.run(`/keys/${made.id}/revoke`)
    await admin.run(`/accounts/${account}/tier`, { tier: 'user_pro' })
    const { secret } = await admin.run(`/accounts/${account}/secret`, { rotate: true })
    await admin.read(`/jobs/${id}/content`)
    await admin.run(`/accounts/${account}/suspend`)
    refused(await admin.post(`/jobs/${id}/cancel`, undefined, alice), 409)
    granted(await admin.delete(`/jobs/${id}?scrub=false`), 200)
    const answer = await admin.get(`/audit?account=${account}`)
    const { acts } = granted(answer, 200)
    const recorded = acts.map(({ who, what, account: of, target, outcome }: Record<string, string>) => {
      assert.equal(of, account)
      return [who?.split(' from ')[0], what, target, outcome]
    })
    assert.deepEqual(recorded, [
      ['admin token', 'delete a job', id, 'deleted'],
      ['alice', 'cancel a job', id, 'refused: it had already finished'],
      ['admin token', 'suspend an account', null, 'suspended'],
      ['admin token', 'look at contents', id, 'shown'],
      ['admin token', 'rotate a secret', null, 'rotated'],
      ['admin token', 'set the tier of an account', null, 'set'],
      ['admin token', 'revoke a key', made.id, 'revoked'],
      ['alice', 'make a key', null, 'refused: the account has tier user_max'],
      ['alice', 'make a key', null, `made ${made.id}`],
    ])
    assert.equal(acts[1].who, 'alice from 127.0.0.1 (admin API)')
    assert.deepEqual(acts[5].details, { tier: 'user_pro' })
    assert.equal(acts[0].at, clock.nowMs() / 1000)
    for (const canary of ['CANARY', secret, made.key]) assert.ok(!answer.text.includes(canary))

    const page = await admin.read(`/audit?account=${account}&limit=2`)
    assert.deepEqual([page.acts, page.more, page.next], [acts.slice(0, 2), true, acts[1].id])
    const rest = await admin.read(`/audit?account=${account}&before=${page.next}`)
    assert.deepEqual([rest.acts.length, rest.more, rest.next], [7, false, null])
  })

  test('a header names the operator of an action, and an invalid name is rejected', async (t) => {
    const { parley, admin, account } = await begin(t)
    const setTier = (name: string) =>
      admin.post(`/accounts/${account}/tier`, { tier: 'user_max' }, { 'x-parley-operator': name })
    const rule = 'x-parley-operator: must be 1 to 64 characters, without control characters'
    for (const name of ['', ' ', 'x'.repeat(65), 'tab\there', latin1('\u202eeve')])
      invalid(await setTier(name), rule)
    const names = ['x'.repeat(64), 'Zoë', latin1('Zoë'), 'Ann Lee']
    for (const name of names) granted(await setTier(name), 200)
    const { acts } = await admin.read(`/audit?account=${account}`)
    assert.deepEqual(
      acts.map(({ who }: { who: string }) => who.split(' from ')[0]),
      ['Ann Lee', 'Zoë', 'Zoë', 'x'.repeat(64)],
    )
    const line = parley.log.findLast(({ message }) => message === 'admin')
    assert.equal(line?.operator, 'Ann Lee')
  })

  test('an action that cannot be logged is not done', async (t) => {
    const { parley, admin, account } = await begin(t)
    const refuse = () => Promise.reject(new Error('the log is full'))
    const { mock } = t.mock.method(parley.store, 'addAuditEntry', refuse)
    refused(await admin.post(`/accounts/${account}/suspend`), 500)
    mock.restore()
    assert.equal((await admin.read(`/accounts/${account}`)).suspended_at, null)
    assert.deepEqual((await admin.read(`/audit?account=${account}`)).acts, [])
    refused(await admin.delete(`/jobs/${randomUUID()}`), 404)
    const [entry] = (await admin.read('/audit')).acts
    assert.equal(entry.outcome, 'refused: there is no such job')
  })

  test('an action stays done if its outcome cannot be logged', async (t) => {
    const { parley, admin, account } = await begin(t)
    t.mock.method(parley.store, 'endAuditEntry', () => Promise.reject(new Error('the log is full')))
    await admin.run(`/accounts/${account}/suspend`)
    const [entry] = (await admin.read(`/audit?account=${account}`)).acts
    assert.deepEqual([entry.what, entry.outcome], ['suspend an account', null])
  })

  test('an event has what the job used, its cost and its metadata', async (t) => {
    const { parley, caller, admin, clock } = await startAdminScene(t, { settings, account: 'acme' })
    const other = await callerOf(parley, 'user_go', 'other')
    const metadata = { order: '7', note: '"}' }
    completed(await caller.post(MESSAGES, priced({ metadata })))
    completed(await caller.post(MESSAGES, priced()))
    completed(await other.create({ model: 'free' }))
    const next = feedOf(admin)
    assert.deepEqual((await next()).events, [])
    clock.advance(VISIBLE_MS)
    const { events, more, currency } = await next()
    assert.deepEqual([more, currency], [false, 'EUR'])
    const [first, cached, free] = events
    const { job_id, created_at, settled_at, ...rest } = first ?? assert.fail('no event')
    assert.ok(created_at <= settled_at)
    // The model server counts characters as tokens: 5 of input, and 11 of the answer `echo: Hello`.
    const used = { input_tokens: 5, cached_input_tokens: 0, output_tokens: 11, calls: 1, cache_hit: false }
    const of = { account: 'acme', model: 'priced', status: 'completed' }
    assert.deepEqual(rest, { ...of, target: 'openai/one', ...used, cost: 120, metadata })
    assert.deepEqual(
      [cached?.target, cached?.cost, cached?.cache_hit, cached?.metadata],
      [null, 0, true, undefined],
    )
    assert.deepEqual([free?.account, free?.target, free?.cost], ['other', 'openai/free', undefined])
    assert.deepEqual((await next()).events, [])
  })

  test('each job has one event, although later ones end first', async (t) => {
    const { caller, admin, models, clock } = await startAdminScene(t, { settings, script })
    const ids = await caller.enqueue(['slow 1', 'fast 1', 'slow 2', 'fast 2', 'fast 3'].map(saying))
    for (const at of [1, 3, 4]) completed(await caller.ended(ids[at]))
    clock.advance(VISIBLE_MS)
    const next = feedOf(admin)
    const read = async (limit?: number) => (await next(limit)).events.map((event) => event.job_id)
    assert.deepEqual(await read(2), [ids[1]])
    assert.deepEqual(await read(2), [ids[3]])
    assert.deepEqual(await read(), [ids[4]])
    assert.deepEqual(await read(), [])
    await models.received(5)
    models.script = () => undefined
    models.release()
    for (const at of [0, 2]) completed(await caller.ended(ids[at]))
    assert.deepEqual(await read(1), [ids[0]])
    assert.deepEqual(await read(1), [ids[2]])
    assert.deepEqual(await read(), [])
  })

  test('events of one account do not wait for the unfinished jobs of others', async (t) => {
    const { parley, caller, admin, clock } = await startAdminScene(t, { settings, script, account: 'acme' })
    const other = await callerOf(parley, 'user_go', 'other')
    completed(await other.post(MESSAGES, priced()))
    for (let jobs = 0; jobs <= 256; jobs += 30) await caller.enqueue(Array(30).fill(saying('slow')))
    completed(await other.post(MESSAGES, priced()))
    clock.advance(VISIBLE_MS)
    for (const [filter, accounts] of [
      ['', ['other']],
      ['&account=acme', []],
      ['&account=other', ['other', 'other']],
    ] as const) {
      const next = feedOf(admin, filter)
      const pages = [await next(200), await next(200)]
      const found = pages.flatMap(({ events }) => events.map((event) => event.account))
      assert.deepEqual([found, pages.at(-1)?.more], [accounts, false], filter)
    }
  })

  test('only a value of `next` is a cursor', async (t) => {
    const { admin } = await startAdminScene(t)
    for (const after of ['x', '', '%00', 'AAAA', 'A'.repeat(9000)]) {
      invalid(await admin.get(`/usage-events?after=${after}`), 'after: must be the `next` of a response')
    }
    assert.equal('currency' in (await admin.read('/usage-events')), false)
  })
})
