/** Tests what the admin API shows of the past: usage, and the audit log. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job } from '../../parley.ts'
import { granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { adminOf } from './admin.ts'

const MESSAGES = '/api/v1/messages'

async function start(t: { after(end: () => unknown): void }) {
  const stage = await startStage(t)
  return { ...stage, admin: await adminOf(stage.parley), key: await stage.parley.key('user_max', 'acme') }
}

const says = (content: string, over: object = {}) => job({ messages: [{ role: 'user', content }], ...over })

onEachStore(() => {
  test('usage is what the jobs used, by month, account and model, a page at a time', async (t) => {
    const { parley, models, admin, key, clock } = await start(t)
    const other = await parley.key('user_go', 'other')
    // The model server counts characters as tokens: 5 of input, and 11 of the answer `echo: Hello`.
    await parley.post(MESSAGES, says('Hello'), key)
    await parley.post(MESSAGES, says('Hello'), key)
    models.script = () => reply.status(400)
    await parley.post(MESSAGES, says('Wrong'), key)
    models.script = () => undefined
    await parley.post(MESSAGES, says('Hello', { model: 'gpt-5' }), other)
    clock.jump(31 * 86_400_000)
    await parley.post(MESSAGES, says('Hello'), key)
    const mini = { account: 'acme', month: '2026-02', model: 'gpt-5-mini' }
    const once = { jobs: 1, failed_jobs: 0, cache_hits: 0, calls: 1, input_tokens: 5, output_tokens: 11 }
    const all = [
      { ...mini, ...once },
      { ...mini, month: '2026-01', ...once, jobs: 3, failed_jobs: 1, cache_hits: 1, calls: 2 },
      { account: 'other', month: '2026-01', model: 'gpt-5', ...once },
    ]
    assert.deepEqual(granted(await admin.get('/usage'), 200), { usage: all, more: false, next: null })
    const usageOf = async (query: string) => granted(await admin.get(`/usage?${query}`), 200).usage
    assert.deepEqual(await usageOf('account=other'), all.slice(2))
    assert.deepEqual(await usageOf('month=2026-01'), all.slice(1))
    const pages: unknown[] = []
    for (let query = 'limit=1', next: string | null = ''; next !== null; query = `limit=1&after=${next}`) {
      const page: Answer['body'] = granted(await admin.get(`/usage?${query}`), 200)
      assert.equal(page.more, page.next !== null)
      pages.push(...page.usage)
      next = page.next
    }
    assert.deepEqual(pages, all)
  })

  test('invalid parameters are rejected by name', async (t) => {
    const { admin } = await start(t)
    for (const month of ['2026', '2026-13', '2026-1', '26-01', '']) {
      invalid(await admin.get(`/usage?month=${month}`), 'month: must be YYYY-MM')
    }
    for (const after of ['x', '2026-01/acme', '2026-01//gpt-5', '2026-13/acme/gpt-5', '2026-01/acme/%00']) {
      invalid(await admin.get(`/usage?after=${after}`), 'after: must be the `next` of a page')
    }
    invalid(await admin.get('/audit?before=x'), 'before: must be the ID of an audit log entry')
    invalid(await admin.get('/audit?account=%00'), /^account: must match pattern/)
    assert.deepEqual(granted(await admin.get('/usage?month=1999-01'), 200).usage, [])
  })

  test('every action is in the audit log with who did it and its outcome, without secrets', async (t) => {
    const { parley, admin, key, clock } = await start(t)
    const alice = { 'x-parley-operator': 'alice' }
    const { job_id: jobId } = granted(await parley.post(MESSAGES, says('CANARY'), key), 200)
    const made = granted(await admin.post('/keys', { account: 'acme', tier: 'user_max' }, alice), 201)
    refused(await admin.post('/keys', { account: 'acme', tier: 'user_go' }, alice), 409)
    granted(await admin.post(`/keys/${made.id}/revoke`), 200)
    granted(await admin.post('/accounts/acme/tier', { tier: 'user_pro' }), 200)
    const { secret } = granted(await admin.post('/accounts/acme/secret', { rotate: true }), 200)
    granted(await admin.get(`/jobs/${jobId}/content`), 200)
    granted(await admin.post('/accounts/acme/suspend'), 200)
    refused(await admin.post(`/jobs/${jobId}/cancel`, undefined, alice), 409)
    granted(await admin.delete(`/jobs/${jobId}?scrub=false`), 200)
    const answer = await admin.get('/audit')
    const { acts } = granted(answer, 200)
    const recorded = acts.map(({ who, what, account, target, outcome }: Record<string, string>) => [
      who?.split(' from ')[0],
      what,
      account,
      target,
      outcome,
    ])
    assert.deepEqual(recorded, [
      ['admin token', 'delete a job', 'acme', jobId, 'deleted'],
      ['alice', 'cancel a job', 'acme', jobId, 'refused: it had already finished'],
      ['admin token', 'suspend an account', 'acme', null, 'suspended'],
      ['admin token', 'look at contents', 'acme', jobId, 'shown'],
      ['admin token', 'rotate a secret', 'acme', null, 'rotated'],
      ['admin token', 'set the tier of an account', 'acme', null, 'set'],
      ['admin token', 'revoke a key', 'acme', made.id, 'revoked'],
      ['alice', 'make a key', 'acme', null, 'refused: the account has tier user_max'],
      ['alice', 'make a key', 'acme', null, `made ${made.id}`],
    ])
    assert.equal(acts[1].who, 'alice from 127.0.0.1 (admin API)')
    assert.deepEqual(acts[5].details, { tier: 'user_pro' })
    assert.equal(acts[0].at, clock.nowMs() / 1000)
    for (const canary of ['CANARY', secret, made.key]) assert.ok(!answer.text.includes(canary))

    const page = granted(await admin.get('/audit?account=acme&limit=2'), 200)
    assert.deepEqual([page.acts, page.more, page.next], [acts.slice(0, 2), true, acts[1].id])
    const rest = granted(await admin.get(`/audit?account=acme&before=${page.next}`), 200)
    assert.deepEqual([rest.acts.length, rest.more, rest.next], [7, false, null])
  })

  test('a header names the operator of an action, and an invalid name is rejected', async (t) => {
    const { parley, admin } = await start(t)
    const tiers = (name: string) =>
      admin.post('/accounts/acme/tier', { tier: 'user_max' }, { 'x-parley-operator': name })
    const rule = 'x-parley-operator: must be 1 to 64 characters, without control characters'
    for (const name of ['', ' ', 'x'.repeat(65), 'tab\there', latin1('\u202eeve')])
      invalid(await tiers(name), rule)
    const names = ['x'.repeat(64), 'Zoë', latin1('Zoë'), 'Ann Lee']
    for (const name of names) granted(await tiers(name), 200)
    const { acts } = granted(await admin.get('/audit'), 200)
    assert.deepEqual(
      acts.map(({ who }: { who: string }) => who.split(' from ')[0]),
      ['Ann Lee', 'Zoë', 'Zoë', 'x'.repeat(64)],
    )
    const line = parley.log.findLast(({ message }) => message === 'admin')
    assert.equal(line?.operator, 'Ann Lee')
  })

  /** Returns the text's UTF-8 bytes as Latin-1 text, because HTTP headers carry bytes in this form. */
  const latin1 = (text: string) => Buffer.from(text).toString('latin1')

  test('an action that cannot be logged is not done', async (t) => {
    const { parley, admin } = await start(t)
    const add = parley.store.addAuditEntry
    parley.store.addAuditEntry = () => Promise.reject(new Error('the log is full'))
    refused(await admin.post('/accounts/acme/suspend'), 500)
    parley.store.addAuditEntry = add
    const [acme] = granted(await admin.get('/accounts'), 200).accounts
    assert.equal(acme.suspended_at, null)
    assert.deepEqual(granted(await admin.get('/audit'), 200).acts, [])
    refused(await admin.delete(`/jobs/${randomUUID()}`), 404)
    const [entry] = granted(await admin.get('/audit'), 200).acts
    assert.equal(entry.outcome, 'refused: there is no such job')
  })

  test('an action stays done if its outcome cannot be logged', async (t) => {
    const { parley, admin } = await start(t)
    parley.store.endAuditEntry = () => Promise.reject(new Error('the log is full'))
    granted(await admin.post('/accounts/acme/suspend'), 200)
    const [entry] = granted(await admin.get('/audit'), 200).acts
    assert.deepEqual([entry.what, entry.outcome], ['suspend an account', null])
  })
})
