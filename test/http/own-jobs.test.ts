/** Tests what callers do with their own jobs: `POST …/{jobId}/cancel` and `DELETE …/{jobId}`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { completed, enqueued, failed, granted, invalid, refused } from './expect.ts'
import { pendingResponsesAre, type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const BY_CALLER = { code: 'cancelled', message: 'The caller cancelled the job.', cancelled_by: 'caller' }

const cancel = (parley: Parley, id: string, key: string): Promise<Answer> =>
  parley.request(`${MESSAGES}/${id}/cancel`, { method: 'POST', headers: { 'x-api-key': key } })
const remove = (parley: Parley, id: string, key: string, query = ''): Promise<Answer> =>
  parley.request(`${MESSAGES}/${id}${query}`, { method: 'DELETE', headers: { 'x-api-key': key } })
const read = (parley: Parley, id: string, key: string) => parley.get(`${MESSAGES}/${id}`, key)

/** Creates a job whose call stalls; returns the job's ID. */
async function runningJob(
  { parley, models }: Stage,
  key: string,
  over: Record<string, unknown> = {},
): Promise<string> {
  models.script = () => reply.stall()
  const calls = models.requests.length
  const messages = [{ role: 'user', content: randomUUID() }]
  const [id = ''] = enqueued(await parley.post(BATCHES, [job({ messages, ...over })], key), 1)
  await models.received(calls + 1)
  return id
}

async function endedJob(
  { parley, models }: Stage,
  key: string,
  over: Record<string, unknown> = {},
): Promise<string> {
  models.script = () => undefined
  const [id = ''] = enqueued(await parley.post(BATCHES, [job(over)], key), 1)
  await parley.ended(id, key)
  return id
}

async function receiverStage(t: TestContext) {
  const receiver = await startReceiver({}, t)
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } }
  return { receiver, ...(await startStage(t, { settings })) }
}

onEachStore(() => {
  // Many HTTP libraries send a content type with every request.
  test('cancel and delete: a content type without a body is accepted', async (t) => {
    const stage = await startStage(t)
    const key = await stage.parley.key()
    const path = `${MESSAGES}/${await runningJob(stage, key)}`
    const headers = { 'x-api-key': key, 'content-type': 'application/json' }
    const cancelled = await stage.parley.request(`${path}/cancel`, { method: 'POST', headers })
    assert.deepEqual([cancelled.status, cancelled.body.data.error], [200, BY_CALLER])
    const deleted = await stage.parley.request(path, { method: 'DELETE', headers })
    assert.deepEqual([deleted.status, deleted.body.data.deleted], [200, true])
  })

  test('cancel: a running job fails at once, its call is cut off, and whoever waits for it is answered', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const waiting = parley.get(`${MESSAGES}/${id}?wait=60`, key)
    await pendingResponsesAre(t, parley, 1)
    const answer = await cancel(parley, id.toUpperCase(), key)
    assert.deepEqual(failed(answer), BY_CALLER)
    assert.equal(answer.body.message, 'The job was cancelled.')
    const late = await read(parley, id, key)
    assert.deepEqual(late.body.data, answer.body.data)
    assert.equal((await waiting).text, late.text)
    assert.equal(await models.requests.at(-1)?.ended, 'cut')
  })

  test('cancel: a queued job never runs, and a single create that waits for it gets its end', async (t) => {
    const stage = await startStage(t, { settings: { jobs: { concurrency: 1 } } })
    const { parley, models } = stage
    const key = await parley.key()
    await runningJob(stage, key)
    const created = parley.post(MESSAGES, job({ model: 'gpt-5' }), key)
    await pendingResponsesAre(t, parley, 1)
    let queued: Answer['body'][] = []
    while (queued.length === 0) {
      queued = granted(await parley.get(`${MESSAGES}?status=pending`, key), 200).jobs
    }
    const answer = await cancel(parley, queued[0].job_id, key)
    assert.deepEqual(failed(answer), BY_CALLER)
    assert.deepEqual(failed(await created), BY_CALLER)
    models.release()
    assert.equal(models.requests.length, 1)
  })

  test('cancel: 200 again for a job that was cancelled before, by anyone; 409 if it ended otherwise', async (t) => {
    const stage = await startStage(t)
    const { parley, clock } = stage
    const key = await parley.key()
    const mine = await runningJob(stage, key)
    const first = await cancel(parley, mine, key)
    assert.equal((await cancel(parley, mine, key)).text, first.text)
    const operators = await runningJob(stage, key)
    assert.equal(await parley.store.cancelJob(operators, clock.nowMs()), 'cancelled')
    assert.equal(failed(await cancel(parley, operators, key)).cancelled_by, 'operator')
    const done = await endedJob(stage, key)
    const answer = await cancel(parley, done, key)
    assert.equal(refused(answer, 409).message, 'The job has already finished.')
    completed(await read(parley, done, key))
  })

  test('cancel: a call in progress counts with its input tokens, so cancelling is no way around a cap', async (t) => {
    const stage = await startStage(t, {
      settings: { tiers: { user_pro: { reads_per_minute: 1e6, max_monthly_tokens: 100 } } },
    })
    const { parley } = stage
    const key = await parley.key('user_pro')
    const content = 'one two three '.repeat(40)
    const over = { messages: [{ role: 'user', content }] }
    const id = await runningJob(stage, key, over)
    failed(await cancel(parley, id, key))
    const { usage } = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls, usage.output_tokens], [1, 1, 1, 0])
    // Usage counts tokens. Creates are checked against bytes, of which a text never has fewer than tokens.
    assert.ok(usage.input_tokens >= 120 && usage.input_tokens < 140, `${usage.input_tokens}`)
    stage.clock.advance(60_000)
    const rejected = await parley.post(BATCHES, [job()], key)
    assert.match(refused(rejected, 403).message, /^Monthly cap reached/)
  })

  test('cancel: its callback is sent, and says who cancelled it', async (t) => {
    const stage = await receiverStage(t)
    const { parley, receiver, clock } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key, { callback: { callback_url: receiver.url } })
    failed(await cancel(parley, id, key))
    clock.advance(1000)
    const [received] = await receiver.received(1)
    assert.deepEqual(JSON.parse(received?.body ?? '').error, BY_CALLER)
  })

  test('cancel on another node: the run, the call and the waits for it end there', async (t) => {
    const stage = await startStage(t)
    const { parley, models, clock } = stage
    if (!parley.database.startsWith('postgres')) return t.skip('a file has one node')
    const other = await startStage(t, { after: stage })
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const waits = [parley, other.parley].map((node) => node.get(`${MESSAGES}/${id}?wait=60`, key))
    for (const node of [parley, other.parley]) await pendingResponsesAre(t, node, 1)
    assert.deepEqual(failed(await cancel(other.parley, id, key)), BY_CALLER)
    clock.advance(500)
    for (const answer of await Promise.all(waits)) assert.deepEqual(failed(answer), BY_CALLER)
    assert.equal(await models.requests.at(-1)?.ended, 'cut')
  })

  test('delete: nothing of the job is left, its cached response neither, and its usage stays', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    const key = await parley.key()
    const headers = { 'idempotency-key': 'order-7' }
    const created = await parley.post(MESSAGES, job(), key, headers)
    const id: string = created.body.data.job_id
    const answer = await remove(parley, id.toUpperCase(), key)
    assert.deepEqual(granted(answer, 200), { job_id: id, deleted: true })
    const unknown = await read(parley, randomUUID(), key)
    for (const again of [
      await read(parley, id, key),
      await remove(parley, id, key),
      await cancel(parley, id, key),
    ]) {
      assert.equal(again.text, unknown.text)
      refused(again, 404)
    }
    assert.deepEqual(granted(await parley.get(MESSAGES, key), 200).jobs, [])
    assert.deepEqual(granted(await parley.get(`${MESSAGES}?ids=${id}`, key), 200).not_found, [id])
    const { usage, stored_bytes } = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([usage.jobs, stored_bytes], [1, 0])
    const calls = models.requests.length
    const again = await parley.post(MESSAGES, job(), key, headers)
    assert.notEqual(granted(again, 200).job_id, id)
    assert.equal(again.headers.get('x-cache'), null)
    assert.equal(models.requests.length, calls + 1)
  })

  test('delete: 409 until the job has ended', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    assert.equal(refused(await remove(parley, id, key), 409).message, 'The job has not finished.')
    failed(await cancel(parley, id, key))
    granted(await remove(parley, id, key), 200)
  })

  test('delete: 409 until the callback is delivered or has failed, unless it is dropped', async (t) => {
    const stage = await receiverStage(t)
    const { parley, receiver } = stage
    const key = await parley.key()
    const callback = { callback_url: receiver.url }
    receiver.script({ kind: 'stall' })
    const owed = await endedJob(stage, key, { callback })
    await receiver.received(1)
    const { message, details } = refused(await remove(parley, owed, key), 409)
    assert.equal(message, 'The callback of the job has not been delivered yet.')
    assert.match(details ?? '', /drop_callback=true/)
    refused(await remove(parley, owed, key, '?drop_callback=false'), 409)
    granted(await remove(parley, owed, key, '?drop_callback=true'), 200)
    receiver.release()
    receiver.script({ kind: 'answer', status: 410, body: 'gone' })
    const failedCallback = await endedJob(stage, key, { callback })
    while ((await parley.store.findCallback(failedCallback))?.state !== 'failed');
    granted(await remove(parley, failedCallback, key), 200)
    assert.equal(await parley.store.findCallback(owed), null)
    for (const value of ['yes', '', '1', 'TRUE']) {
      invalid(await remove(parley, owed, key, `?drop_callback=${value}`), /^drop_callback: /)
    }
  })

  test('another account’s job is as unknown as any: it is neither cancelled nor deleted', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const [mine, theirs] = [await parley.key('user_max', 'mine'), await parley.key('user_max', 'theirs')]
    const [done, open] = [await endedJob(stage, theirs), await runningJob(stage, theirs)]
    for (const send of [cancel, remove]) {
      const unknown = await send(parley, randomUUID(), mine)
      refused(unknown, 404)
      for (const id of [done, open, 'x', '%zz', 'batches']) {
        const answer = await send(parley, id, mine)
        assert.deepEqual([answer.status, answer.text], [404, unknown.text], id)
      }
    }
    completed(await read(parley, done, theirs))
    assert.equal(granted(await read(parley, open, theirs), 200).status, 'assigned')
  })

  test('429 past the cancels or deletes of a key in a minute, counted apart from each other and from reads', async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { limits: { cancels_per_minute: 2, deletes_per_minute: 1 } },
    })
    const [key, other] = [await parley.key(), await parley.key()]
    for (const [send, limit, what, setting] of [
      [cancel, 2, 'cancel', 'limits.cancels_per_minute'],
      [remove, 1, 'delete', 'limits.deletes_per_minute'],
    ] as const) {
      for (let done = 0; done < limit; done++) refused(await send(parley, randomUUID(), key), 404)
      const over = await send(parley, randomUUID(), key)
      const { message, details } = refused(over, 429)
      assert.equal(message, 'Rate limit exceeded.')
      assert.equal(
        details,
        `This key may ${what} at most ${limit} jobs per minute (${setting}). Try again in 60 s.`,
      )
      assert.equal(over.headers.get('retry-after'), '60')
      refused(await send(parley, randomUUID(), other), 404)
    }
    clock.advance(60_000)
    refused(await cancel(parley, randomUUID(), key), 404)
  })

  test('both are in the log and in a metric, and not in the audit log of operators', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    failed(await cancel(parley, id, key))
    failed(await cancel(parley, id, key))
    const deleted = await remove(parley, id, key)
    granted(deleted, 200)
    const lines = parley.log.filter(({ message }) => message === 'caller')
    assert.deepEqual(
      lines.map(({ action, job_id, account }) => [action, job_id, account]),
      [
        ['cancel', id, 'user_max'],
        ['delete', id, 'user_max'],
      ],
    )
    assert.match(String(lines[0]?.key_id), /^key_/)
    assert.equal(lines[1]?.request_id, deleted.headers.get('x-request-id'))
    const { text } = await parley.get('/metrics')
    assert.match(text, /^parley_caller_actions_total\{action="cancel"\} 1$/m)
    assert.match(text, /^parley_caller_actions_total\{action="delete"\} 1$/m)
    assert.deepEqual(await parley.store.listAuditEntries({ limit: 10 }), [])
  })

  test('a body is not needed, and one that is not JSON is rejected', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const id = randomUUID()
    refused(await parley.post(`${MESSAGES}/${id}/cancel`, {}, key), 404)
    refused(await parley.post(`${MESSAGES}/${id}/cancel`, '{', key), 400)
    refused(await parley.post(`${MESSAGES}/${id}/cancel`, 'x', key, { 'content-type': 'text/plain' }), 415)
    refused(await parley.request(`${MESSAGES}/${id}/cancel`, { method: 'POST' }), 401)
    refused(await parley.request(`${MESSAGES}/${id}`, { method: 'DELETE' }), 401)
  })
})
