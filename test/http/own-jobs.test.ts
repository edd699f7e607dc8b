/**
 * Tests how callers cancel and delete their own jobs, and that the call of a cancelled job ends within half a second, whoever
 * cancelled it.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import {
  type Caller,
  callerOf,
  idOf,
  idsOf,
  LOCAL_CALLBACKS,
  MESSAGES,
  runningJob,
  type Scene,
  shareStage,
  startScene,
} from './caller.ts'
import { completed, failed, granted, invalid, refused } from './expect.ts'
import { pendingResponsesAre, startStage } from './stage.ts'

const BY_CALLER = { code: 'cancelled', message: 'The caller cancelled the job.', cancelled_by: 'caller' }

const cancel = ({ cancel }: Caller, id: string) => cancel(id)
const remove = ({ remove }: Caller, id: string) => remove(id)

async function endedJob({ models, caller }: Pick<Scene, 'models' | 'caller'>, over = {}): Promise<string> {
  models.script = () => undefined
  const id = await caller.enqueueOne(over)
  await caller.ended(id)
  return id
}

async function receiverScene(t: TestContext) {
  const receiver = await startReceiver({}, t)
  const callbacks = { ...LOCAL_CALLBACKS.callbacks, retry_seconds: [0] }
  const scene = await startScene(t, { settings: { callbacks } })
  return { receiver, callback: { callback_url: receiver.url }, scene, ...scene }
}

const LOOK_MS = 500
const ONE_AT_A_TIME = { jobs: { concurrency: 1 } }

onEachStore(() => {
  const begin = shareStage()

  // Many HTTP libraries send a content type with every request.
  test('cancel and delete: a content type without a body is accepted', async (t) => {
    const scene = await begin(t)
    const path = `${MESSAGES}/${await runningJob(scene)}`
    const headers = { 'x-api-key': scene.caller.key, 'content-type': 'application/json' }
    const cancelled = await scene.parley.request(`${path}/cancel`, { method: 'POST', headers })
    assert.deepEqual(failed(cancelled), BY_CALLER)
    const deleted = await scene.parley.request(path, { method: 'DELETE', headers })
    assert.equal(granted(deleted, 200).deleted, true)
  })

  test('cancel: a running job fails at once, its call is cut off, and whoever waits for it is answered', async (t) => {
    const scene = await begin(t)
    const { parley, caller, models } = scene
    const id = await runningJob(scene)
    const waiting = caller.read(id, '?wait=60')
    await pendingResponsesAre(t, parley, 1)
    const answer = await caller.cancel(id.toUpperCase())
    assert.deepEqual(failed(answer), BY_CALLER)
    assert.equal(answer.body.message, 'The job was cancelled.')
    const late = await caller.read(id)
    assert.deepEqual(late.body.data, answer.body.data)
    assert.equal((await waiting).text, late.text)
    assert.equal(await models.requests.at(-1)?.ended, 'cut')
  })

  test('cancel: a queued job never runs, and a single create that waits for it gets its end', async (t) => {
    const scene = await startScene(t, { settings: ONE_AT_A_TIME })
    const { parley, caller, models } = scene
    await runningJob(scene)
    const created = caller.create({ model: 'gpt-5' })
    await pendingResponsesAre(t, parley, 1)
    let queued: string[] = []
    while (queued.length === 0) queued = idsOf(granted(await caller.get(`${MESSAGES}?status=pending`), 200))
    assert.deepEqual(failed(await caller.cancel(queued[0])), BY_CALLER)
    assert.deepEqual(failed(await created), BY_CALLER)
    models.release()
    assert.equal(models.requests.length, 1)
  })

  test('cancel: 200 again for a job that was cancelled before, by anyone; 409 if it ended otherwise. delete: 409 until then', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const mine = await runningJob(scene)
    refused(await caller.remove(mine), 409, { message: 'The job has not finished.' })
    const first = await caller.cancel(mine)
    assert.equal((await caller.cancel(mine)).text, first.text)
    const operators = await runningJob(scene)
    assert.equal(await parley.store.cancelJob(operators, clock.nowMs()), 'cancelled')
    assert.equal(failed(await caller.cancel(operators)).cancelled_by, 'operator')
    const done = await endedJob(scene)
    refused(await caller.cancel(done), 409, { message: 'The job has already finished.' })
    completed(await caller.read(done))
  })

  test('cancel: a call in progress counts with its input tokens, so cancelling is no way around a cap', async (t) => {
    const scene = await startScene(t, {
      settings: { tiers: { user_pro: { reads_per_minute: 1e6, max_monthly_tokens: 100 } } },
      tier: 'user_pro',
    })
    const { caller, clock } = scene
    const messages = [{ role: 'user', content: 'one two three '.repeat(40) }]
    failed(await caller.cancel(await runningJob(scene, { messages })))
    const { usage } = await caller.me()
    assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls, usage.output_tokens], [1, 1, 1, 0])
    // Usage counts tokens. Creates are checked against bytes, because a text never has more tokens than bytes.
    assert.ok(usage.input_tokens >= 120 && usage.input_tokens < 140, `${usage.input_tokens}`)
    clock.advance(60_000)
    refused(await caller.create(), 403, { message: /^Monthly cap reached/ })
  })

  test('cancel: its callback is sent, and says who cancelled it', async (t) => {
    const { receiver, callback, scene, caller, clock } = await receiverScene(t)
    failed(await caller.cancel(await runningJob(scene, { callback })))
    clock.advance(1000)
    const [received] = await receiver.received(1)
    assert.deepEqual(JSON.parse(received?.body ?? '').error, BY_CALLER)
  })

  test('cancel on another node: the run, the call and the waits for it end there', async (t) => {
    const scene = await startScene(t)
    const { parley, caller, models, clock } = scene
    if (!parley.store.shared) return t.skip('a file has one node')
    const nodes = [parley, (await startStage(t, { after: scene })).parley]
    const id = await runningJob(scene)
    const waits = nodes.map((node) => caller.at(node).read(id, '?wait=60'))
    for (const node of nodes) await pendingResponsesAre(t, node, 1)
    const cancelled = await caller.at(nodes[1] ?? parley).cancel(id)
    clock.advance(500)
    for (const answer of [cancelled, ...(await Promise.all(waits))])
      assert.deepEqual(failed(answer), BY_CALLER)
    assert.equal(await models.requests.at(-1)?.ended, 'cut')
  })

  test('delete: nothing of the job is left, its cached response neither, and its usage stays', async (t) => {
    const { caller, models } = await begin(t)
    const headers = { 'idempotency-key': 'order-7' }
    const id = idOf(await caller.create({}, headers))
    assert.deepEqual(granted(await caller.remove(id.toUpperCase()), 200), { job_id: id, deleted: true })
    const unknown = await caller.read(randomUUID())
    refused(unknown, 404)
    for (const again of [await caller.read(id), await caller.remove(id), await caller.cancel(id)]) {
      assert.deepEqual([again.status, again.text], [404, unknown.text])
    }
    assert.deepEqual(await caller.jobIds(), [])
    assert.deepEqual(granted(await caller.get(`${MESSAGES}?ids=${id}`), 200).not_found, [id])
    const { usage, stored_bytes } = await caller.me()
    assert.deepEqual([usage.jobs, stored_bytes], [1, 0])
    const again = await caller.create({}, headers)
    assert.notEqual(idOf(again), id)
    assert.equal(again.headers.get('x-cache'), null)
    assert.equal(models.requests.length, 2)
  })

  test('delete: 409 until the callback is delivered or has failed, unless it is dropped', async (t) => {
    const { receiver, callback, scene, caller, parley } = await receiverScene(t)
    receiver.script({ kind: 'stall' })
    const owed = await endedJob(scene, { callback })
    await receiver.received(1)
    refused(await caller.remove(owed), 409, {
      message: 'The callback of the job has not been delivered yet.',
      details: /drop_callback=true/,
    })
    refused(await caller.remove(owed, '?drop_callback=false'), 409)
    granted(await caller.remove(owed, '?drop_callback=true'), 200)
    receiver.release()
    receiver.script({ kind: 'answer', status: 410, body: 'gone' })
    const failedCallback = await endedJob(scene, { callback })
    while ((await parley.store.findCallback(failedCallback))?.state !== 'failed');
    granted(await caller.remove(failedCallback), 200)
    assert.equal(await parley.store.findCallback(owed), null)
    for (const value of ['yes', '', '1', 'TRUE']) {
      invalid(await caller.remove(owed, `?drop_callback=${value}`), /^drop_callback: /)
    }
  })

  test('429 past the cancels or deletes of a key in a minute, counted apart from each other and from reads', async (t) => {
    const { parley, caller, clock } = await startScene(t, {
      settings: { limits: { cancels_per_minute: 2, deletes_per_minute: 1 } },
    })
    const other = await callerOf(parley)
    for (const [send, limit, what] of [
      [cancel, 2, 'cancel'],
      [remove, 1, 'delete'],
    ] as const) {
      for (let done = 0; done < limit; done++) refused(await send(caller, randomUUID()), 404)
      const over: Answer = await send(caller, randomUUID())
      refused(over, 429, {
        message: 'Rate limit exceeded.',
        details: `This key may ${what} at most ${limit} jobs per minute (limits.${what}s_per_minute). Try again in 60 s.`,
      })
      assert.equal(over.headers.get('retry-after'), '60')
      refused(await send(other, randomUUID()), 404)
    }
    clock.advance(60_000)
    refused(await caller.cancel(randomUUID()), 404)
  })

  test('both are in the log and in a metric, and not in the audit log of operators', async (t) => {
    const scene = await startScene(t)
    const { parley, caller } = scene
    const id = await runningJob(scene)
    failed(await caller.cancel(id))
    failed(await caller.cancel(id))
    const deleted = await caller.remove(id)
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
    for (const action of ['cancel', 'delete'])
      assert.ok(text.includes(`\nparley_caller_actions_total{action="${action}"} 1\n`), action)
    assert.deepEqual(await parley.store.listAuditEntries({ limit: 10 }), [])
  })

  test('a running job: its call to the model server is cut off, and the next job takes its slot', async (t) => {
    const { parley, caller, models, clock } = await startScene(t, {
      settings: ONE_AT_A_TIME,
      script: (_request, index) => (index === 0 ? reply.stall() : undefined),
    })
    const [running = '', waiting] = await caller.enqueue([job(), job()])
    await models.received(1)
    assert.equal(await parley.store.cancelJob(running, clock.nowMs()), 'cancelled')
    assert.deepEqual(failed(await caller.read(running)), {
      code: 'cancelled',
      message: 'An operator of the service cancelled the job.',
      cancelled_by: 'operator',
    })
    clock.advance(LOOK_MS)
    assert.equal(await models.requests[0]?.ended, 'cut')
    completed(await caller.ended(waiting))
    assert.equal(failed(await caller.read(running)).code, 'cancelled')
    const { usage } = await caller.me()
    assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls], [2, 1, 1])
  })

  test('callers that wait for a job get its end, whether it ran or was queued', async (t) => {
    const { parley, caller, models, clock } = await startScene(t, {
      settings: ONE_AT_A_TIME,
      script: () => reply.stall(),
    })
    const first = caller.create()
    await models.received(1)
    const second = caller.create()
    await pendingResponsesAre(t, parley, 2)
    while ((await parley.store.depth()).waiting !== 1);
    const beforeJobId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
    const which = { account: 'user_max', running: true, beforeJobId, limit: 10, nowMs: clock.nowMs() }
    assert.equal(await parley.store.cancelJobs(which), 2)
    clock.advance(LOOK_MS)
    for (const answer of [await first, await second]) assert.equal(failed(answer).code, 'cancelled')
    assert.equal(await models.requests[0]?.ended, 'cut')
  })
})
