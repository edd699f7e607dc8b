/** Tests callbacks in the admin API: their state, their attempts, and replays. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job, startParley } from '../../parley.ts'
import { startReceiver } from '../../receiver.ts'
import { callerOf, idsOf, LOCAL_CALLBACKS } from '../caller.ts'
import { granted, invalid, refused } from '../expect.ts'
import { adminOf } from './admin.ts'

async function start(t: TestContext) {
  const receiver = await startReceiver({}, t)
  const callbacks = { ...LOCAL_CALLBACKS.callbacks, retry_seconds: [0] }
  const parley = await startParley(t, { settings: { callbacks } })
  const admin = await adminOf(parley)
  const [caller, other] = [await callerOf(parley), await callerOf(parley, 'user_go', 'other')]
  const callback = {
    callback_url: `${receiver.url}/hook`,
    callback_headers: { authorization: 'CANARY' },
    callback_payload: { n: 1 },
  }
  const create = (count: number, by = caller) =>
    by.enqueue(Array.from({ length: count }, () => job({ callback })))
  const callbacksAre = async (state: string, count: number): Promise<Answer['body'][]> => {
    for (;;) {
      const { callbacks: found } = await admin.read(`/callbacks?state=${state}`)
      if (found.length === count) return found
      t.signal.throwIfAborted()
    }
  }
  const asReader = async () => {
    const { token } = granted(await admin.post('/tokens', { name: 'reader', read_only: true }), 201)
    return adminOf(parley, token)
  }
  return { receiver, parley, other, create, callbacksAre, asReader, admin }
}

const idsIn = ({ callbacks }: Answer['body']) => idsOf({ jobs: callbacks })

onEachStore(() => {
  test('a read-only token sees neither payloads, nor the texts of receivers, nor paths of their addresses', async (t) => {
    const { receiver, create, callbacksAre, asReader, admin } = await start(t)
    receiver.script({ kind: 'answer', body: 'Thank you, Ms Kim.' })
    const [id] = await create(1)
    await callbacksAre('delivered', 1)
    await admin.run('/accounts/user_max/webhook', { url: `${receiver.url}/hook` })
    const reader = await asReader()
    for (const path of [`/callbacks/${id}`, `/jobs/${id}`, '/callbacks']) {
      assert.match((await admin.get(path)).text, /Ms Kim/)
      const hidden = await reader.get(path)
      granted(hidden, 200)
      assert.doesNotMatch(hidden.text, /Ms Kim|"n\\":1|\/hook/)
    }
    for (const path of ['/accounts', '/accounts/user_max']) {
      assert.ok((await admin.get(path)).text.includes(`"${receiver.url}/hook"`))
      const hidden = await reader.get(path)
      assert.ok(hidden.text.includes(`"webhook_url":"${receiver.url}"`), hidden.text)
    }
  })

  test('a job id in upper case is the same job on every route, and is recorded in lower case', async (t) => {
    const { parley, create, callbacksAre, admin } = await start(t)
    const [older = '', newer = ''] = [...(await create(1)), ...(await create(1))]
    await callbacksAre('delivered', 2)
    const upper = older.toUpperCase()
    for (const path of ['/jobs/ID', '/jobs/ID/content', '/callbacks/ID']) {
      const [one, other] = [older, upper].map((id) => admin.read(path.replace('ID', id)))
      assert.deepEqual(await other, await one, path)
    }
    const before = newer.toUpperCase()
    assert.deepEqual(idsOf(await admin.read(`/jobs?before=${before}`)), [older])
    assert.deepEqual(idsIn(await admin.read(`/callbacks?before=${before}`)), [older])
    await admin.run(`/callbacks/${upper}/replay`)
    refused(await admin.post(`/jobs/${upper}/cancel`), 409)
    await callbacksAre('delivered', 2)
    granted(await admin.delete(`/jobs/${upper}?scrub=false`), 200)
    refused(await admin.get(`/jobs/${older}`), 404)
    const { acts } = await admin.read('/audit')
    assert.deepEqual(new Set(acts.map((entry: Answer['body']) => entry.target)), new Set([older]))
    const page = await admin.read(`/audit?before=${acts.at(-2).id.toUpperCase()}`)
    assert.deepEqual(page.acts, [acts.at(-1)])
    await parley.stop()
  })

  test('callbacks are listed by state and account, a page at a time, and shown with their attempts', async (t) => {
    const { receiver, other, create, callbacksAre, asReader, admin } = await start(t)
    receiver.script({ kind: 'answer', status: 500, body: 'broken' })
    const [failing] = await create(1)
    const [failed] = await callbacksAre('failed', 1)
    const [delivered] = await create(1, other)
    await callbacksAre('delivered', 1)
    assert.deepEqual([failed.job_id, failed.attempts, failed.last_attempt.status], [failing, 1, 500])
    for (const [query, expected, more] of [
      ['', [delivered, failing], false],
      ['?account=other', [delivered], false],
      [`?before=${delivered}`, [failing], false],
      ['?limit=1', [delivered], true],
      ['?limit=2', [delivered, failing], false],
    ] as const) {
      const page = await admin.read(`/callbacks${query}`)
      assert.deepEqual([idsIn(page), page.more], [expected, more], query)
    }

    const answer = await admin.get(`/callbacks/${failing}`)
    const details = granted(answer, 200)
    assert.deepEqual([details.state, details.under_way, details.job_status], ['failed', false, 'completed'])
    assert.deepEqual([details.header_names, details.callback_payload], [['authorization'], '{"n":1}'])
    assert.deepEqual(details.log, [
      { ...details.log[0], attempt: 1, status: 500, error: null, answer: 'broken' },
    ])
    assert.ok(!answer.text.includes('CANARY'), 'a header’s value may be a secret of the receiver')
    const page = await admin.read(`/jobs/${failing}`)
    assert.deepEqual(page.callback, details)
    assert.match(page.timeline.at(-1).detail, /^attempt 1: 500, \d+ ms$/)
    const { callback } = await (await asReader()).read(`/jobs/${failing}`)
    assert.deepEqual([callback.callback_payload, callback.log[0].answer], [null, null])
    assert.equal((await admin.read('/jobs?account=other')).jobs[0].callback, 'delivered')
  })

  test('an attempt without a response is shown with its error', async (t) => {
    const { receiver, create, callbacksAre, admin } = await start(t)
    receiver.script({ kind: 'reset', when: 'before' })
    const [id] = await create(1)
    const [failed] = await callbacksAre('failed', 1)
    const { log } = await admin.read(`/callbacks/${id}`)
    for (const { status, error, answer } of [failed.last_attempt, ...log]) {
      assert.deepEqual([status, answer ?? null], [null, null])
      assert.match(error, /ECONNRESET|closed/)
    }
  })

  test('a replay sends a callback again at once, and is logged', async (t) => {
    const { receiver, parley, create, callbacksAre, admin } = await start(t)
    receiver.script({ kind: 'answer', status: 410 })
    const [id] = await create(1)
    await callbacksAre('failed', 1)
    assert.deepEqual(await admin.run(`/callbacks/${id}/replay`), { replayed: true })
    await callbacksAre('delivered', 1)
    assert.equal(receiver.requests.length, 2)
    const lines = parley.log.filter(({ message }) => message === 'admin')
    assert.deepEqual(
      lines.map(({ what, job_id, from }) => [what, job_id, from]),
      [['replay a callback', id, '127.0.0.1']],
    )
  })

  test('404 for an unknown callback, 409 while it is being sent', async (t) => {
    const { receiver, create, callbacksAre, admin } = await start(t)
    for (const id of ['x', randomUUID()]) {
      refused(await admin.get(`/callbacks/${id}`), 404, { message: 'Callback not found.' })
      refused(await admin.post(`/callbacks/${id}/replay`), 404)
    }
    invalid(await admin.get('/callbacks?before=x'), 'before: must be a job ID')
    invalid(await admin.get('/callbacks?state=lost'), /^state: must be one of owed, delivered, failed/)
    receiver.script({ kind: 'stall' })
    const [id] = await create(1)
    await receiver.received(1)
    refused(await admin.post(`/callbacks/${id}/replay`), 409, { message: /being sent/ })
    assert.equal((await admin.read(`/callbacks/${id}`)).under_way, true)
    receiver.release()
    await callbacksAre('delivered', 1)
  })

  test('all failed callbacks are replayed, of all accounts or of one', async (t) => {
    const { receiver, other, create, callbacksAre, admin } = await start(t)
    receiver.script(...Array(3).fill({ kind: 'answer', status: 500 }))
    await create(2)
    await create(1, other)
    await callbacksAre('failed', 3)
    for (const [body, replayed, delivered] of [
      [{ account: 'nobody' }, 0, 0],
      [{ account: 'other' }, 1, 1],
      [undefined, 2, 3],
    ] as const) {
      assert.deepEqual(await admin.run('/callbacks/replay-failed', body), { replayed })
      await callbacksAre('delivered', delivered)
    }
    invalid(await admin.post('/callbacks/replay-failed', { acount: 'x' }), 'acount: is not a known field')
  })
})
