/** Tests callbacks in the admin API: their state, their attempts, and replays. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job, startParley } from '../../parley.ts'
import { startReceiver } from '../../receiver.ts'
import { enqueued, granted, invalid, refused } from '../expect.ts'
import { type Admin, adminOf, BASE } from './admin.ts'

async function start(t: TestContext, retries: readonly number[] = [0]) {
  const receiver = await startReceiver({}, t)
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: retries }
  const parley = await startParley(t, { settings: { callbacks } })
  const key = await parley.key()
  const create = async (count: number, apiKey = key) => {
    const callback = {
      callback_url: `${receiver.url}/hook`,
      callback_headers: { authorization: 'CANARY' },
      callback_payload: { n: 1 },
    }
    const jobs = Array.from({ length: count }, () => job({ callback }))
    return enqueued(await parley.post('/api/v1/messages/batches', jobs, apiKey), count)
  }
  return { receiver, parley, create, admin: await adminOf(parley) }
}

/** Resolves when `count` callbacks are in the state. */
async function callbacksAre(
  t: TestContext,
  admin: Admin,
  state: string,
  count: number,
): Promise<Answer['body'][]> {
  for (;;) {
    const { callbacks } = granted(await admin.get(`/callbacks?state=${state}`), 200)
    if (callbacks.length === count) return callbacks
    t.signal.throwIfAborted()
  }
}

onEachStore(() => {
  test('a read-only token sees neither payloads, nor the texts of receivers, nor paths of their addresses', async (t) => {
    const { receiver, parley, create, admin } = await start(t)
    receiver.script({ kind: 'answer', body: 'Thank you, Ms Kim.' })
    const [id] = await create(1)
    await callbacksAre(t, admin, 'delivered', 1)
    granted(await admin.post('/accounts/user_max/webhook', { url: `${receiver.url}/hook` }), 200)
    const { token } = granted(await admin.post('/tokens', { name: 'prometheus', read_only: true }), 201)
    for (const path of [`/callbacks/${id}`, `/jobs/${id}`, '/callbacks']) {
      assert.match((await admin.get(path)).text, /Ms Kim/)
      const headers = { authorization: `Bearer ${token}` }
      const hidden = await parley.get(`/admin/api${path}`, undefined, headers)
      granted(hidden, 200)
      assert.doesNotMatch(hidden.text, /Ms Kim|"n\\":1|\/hook/)
    }
    for (const path of ['/accounts', '/accounts/user_max']) {
      assert.ok((await admin.get(path)).text.includes(`"${receiver.url}/hook"`))
      const hidden = await parley.get(`/admin/api${path}`, undefined, { authorization: `Bearer ${token}` })
      assert.ok(hidden.text.includes(`"webhook_url":"${receiver.url}"`), hidden.text)
    }
  })

  test('a job id in upper case is the same job on every route, and is recorded in lower case', async (t) => {
    const { parley, create, admin } = await start(t)
    const [older = '', newer = ''] = [...(await create(1)), ...(await create(1))]
    await callbacksAre(t, admin, 'delivered', 2)
    const upper = older.toUpperCase()
    for (const path of ['/jobs/ID', '/jobs/ID/content', '/callbacks/ID']) {
      const [one, other] = await Promise.all([older, upper].map((id) => admin.get(path.replace('ID', id))))
      assert.deepEqual(granted(other as Answer, 200), granted(one as Answer, 200), path)
    }
    for (const [list, before] of [
      ['jobs', newer],
      ['callbacks', newer],
    ]) {
      const found = granted(await admin.get(`/${list}?before=${before?.toUpperCase()}`), 200)[`${list}`]
      assert.deepEqual(
        found.map((one: Answer['body']) => one.job_id),
        [older],
      )
    }
    granted(await admin.post(`/callbacks/${upper}/replay`), 200)
    refused(await admin.post(`/jobs/${upper}/cancel`), 409)
    await callbacksAre(t, admin, 'delivered', 2)
    granted(await admin.delete(`/jobs/${upper}?scrub=false`), 200)
    refused(await admin.get(`/jobs/${older}`), 404)
    const { acts } = granted(await admin.get('/audit'), 200)
    assert.deepEqual(new Set(acts.map((entry: Answer['body']) => entry.target)), new Set([older]))
    const last = acts.at(-2).id
    const page = granted(await admin.get(`/audit?before=${last.toUpperCase()}`), 200).acts
    assert.deepEqual(page, [acts.at(-1)])
    await parley.stop()
  })

  test('callbacks are listed by state and account, a page at a time, and shown with their attempts', async (t) => {
    const { receiver, parley, create, admin } = await start(t)
    receiver.script({ kind: 'answer', status: 500, body: 'broken' })
    const [failing = ''] = await create(1)
    const [failed] = await callbacksAre(t, admin, 'failed', 1)
    const other = await parley.key('user_go', 'other')
    const [delivered = ''] = await create(1, other)
    await callbacksAre(t, admin, 'delivered', 1)
    assert.deepEqual([failed.job_id, failed.attempts, failed.last_attempt.status], [failing, 1, 500])
    const ids = async (query: string) =>
      granted(await admin.get(`/callbacks${query}`), 200).callbacks.map((one: Answer['body']) => one.job_id)
    assert.deepEqual(await ids(''), [delivered, failing])
    assert.deepEqual(await ids('?account=other'), [delivered])
    assert.deepEqual(await ids(`?before=${delivered}`), [failing])
    assert.equal(granted(await admin.get('/callbacks?limit=1'), 200).more, true)
    assert.equal(granted(await admin.get('/callbacks?limit=2'), 200).more, false)

    const answer = await admin.get(`/callbacks/${failing}`)
    const details = granted(answer, 200)
    assert.deepEqual([details.state, details.under_way, details.job_status], ['failed', false, 'completed'])
    assert.deepEqual([details.header_names, details.callback_payload], [['authorization'], '{"n":1}'])
    assert.deepEqual(details.log, [
      { ...details.log[0], attempt: 1, status: 500, error: null, answer: 'broken' },
    ])
    const page = granted(await admin.get(`/jobs/${failing}`), 200)
    assert.deepEqual(page.callback, details)
    const { token } = granted(await admin.post('/tokens', { name: 'reader', read_only: true }), 201)
    const headers = { authorization: `Bearer ${token}` }
    const read = granted(await parley.request(`${BASE}/jobs/${failing}`, { headers }), 200)
    assert.deepEqual([read.callback.callback_payload, read.callback.log[0].answer], [null, null])
    assert.match(page.timeline.at(-1).detail, /^attempt 1: 500, \d+ ms$/)
    assert.equal(granted(await admin.get('/jobs?account=other'), 200).jobs[0].callback, 'delivered')
    assert.ok(!answer.text.includes('CANARY'), 'a header’s value may be a secret of the receiver')
  })

  test('a replay sends a callback again at once, and is logged', async (t) => {
    const { receiver, parley, create, admin } = await start(t)
    receiver.script({ kind: 'answer', status: 410 })
    const [id = ''] = await create(1)
    await callbacksAre(t, admin, 'failed', 1)
    const answer = await admin.post(`/callbacks/${id}/replay`)
    assert.deepEqual(granted(answer, 200), { replayed: true })
    await callbacksAre(t, admin, 'delivered', 1)
    assert.equal(receiver.requests.length, 2)
    const lines = parley.log.filter(({ message }) => message === 'admin')
    assert.deepEqual(
      lines.map(({ what, job_id, from }) => [what, job_id, from]),
      [['replay a callback', id, '127.0.0.1']],
    )
  })

  test('404 for an unknown callback, 409 while it is being sent', async (t) => {
    const { receiver, create, admin } = await start(t)
    for (const id of ['x', randomUUID()]) {
      assert.equal(refused(await admin.get(`/callbacks/${id}`), 404).message, 'Callback not found.')
      refused(await admin.post(`/callbacks/${id}/replay`), 404)
    }
    invalid(await admin.get('/callbacks?before=x'), 'before: must be a job ID')
    invalid(await admin.get('/callbacks?state=lost'), /^state: must be one of owed, delivered, failed/)
    receiver.script({ kind: 'stall' })
    const [id] = await create(1)
    await receiver.received(1)
    assert.match(refused(await admin.post(`/callbacks/${id}/replay`), 409).message, /being sent/)
    assert.equal(granted(await admin.get(`/callbacks/${id}`), 200).under_way, true)
    receiver.release()
    await callbacksAre(t, admin, 'delivered', 1)
  })

  test('all failed callbacks are replayed, of all accounts or of one', async (t) => {
    const { receiver, parley, create, admin } = await start(t)
    const other = await parley.key('user_max', 'other')
    receiver.script(...Array(3).fill({ kind: 'answer', status: 500 }))
    await create(2)
    await create(1, other)
    await callbacksAre(t, admin, 'failed', 3)
    assert.deepEqual(granted(await admin.post('/callbacks/replay-failed', { account: 'nobody' }), 200), {
      replayed: 0,
    })
    assert.deepEqual(granted(await admin.post('/callbacks/replay-failed', { account: 'other' }), 200), {
      replayed: 1,
    })
    await callbacksAre(t, admin, 'delivered', 1)
    assert.deepEqual(granted(await admin.post('/callbacks/replay-failed'), 200), { replayed: 2 })
    await callbacksAre(t, admin, 'delivered', 3)
    invalid(await admin.post('/callbacks/replay-failed', { acount: 'x' }), 'acount: is not a known field')
  })
})
