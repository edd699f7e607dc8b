/** Tests a read that waits for its job, `GET /api/v1/messages/{jobId}?wait=SECONDS`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { completed, enqueued, failed, granted, invalid, refused, timedOut } from './expect.ts'
import { openLine } from './raw-http.ts'
import { pendingResponsesAre, type Stage, startStage, stopAtOnce } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

/** Creates a job whose call the model server answers only when released; returns the job's ID. */
async function runningJob({ parley, models }: Stage, key: string): Promise<string> {
  models.script = () => reply.stall()
  const calls = models.requests.length
  // The message is unique, so that the job is not answered from the cache.
  const messages = [{ role: 'user', content: randomUUID() }]
  const [id = ''] = enqueued(await parley.post(BATCHES, [job({ messages })], key), 1)
  await models.received(calls + 1)
  return id
}

/**
 * Starts a read; resolves when the number of pending responses shows that the read waits. The response is a promise inside an
 * object, because `await` would resolve a bare promise.
 */
async function waitingRead(
  t: TestContext,
  { parley }: Stage,
  key: string,
  path: string,
  pending = 1,
): Promise<{ readonly answer: Promise<Answer> }> {
  const answer = parley.get(path, key)
  await pendingResponsesAre(t, parley, pending)
  return { answer }
}

/** Asserts that the wait lasts `ms` milliseconds, by advancing the clock; resolves with the response. */
async function afterTime({ clock }: Stage, ms: number, { answer }: { readonly answer: Promise<Answer> }) {
  clock.advance(ms - 1)
  assert.ok(clock.pending().includes(1), 'the wait ended early')
  clock.advance(1)
  return answer
}

onEachStore(() => {
  test('4.2 a wait is answered as soon as the job has ended, with the same bytes as a read', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const [first, second] = [
      parley.get(`${MESSAGES}/${id}?wait=120`, key),
      parley.get(`${MESSAGES}/${id}?wait=0.5`, key),
    ]
    await pendingResponsesAre(t, parley, 2)
    models.release()
    const read = await parley.ended(id, key)
    for (const answer of [await first, await second]) {
      assert.match(completed(answer), /^echo: /)
      assert.equal(answer.text, read.text)
      assert.equal(answer.headers.get('retry-after'), null)
    }
    await pendingResponsesAre(t, parley, 0)
  })

  test('4.2 a job that has ended is returned at once, and so is any without a wait', async (t) => {
    const stage = await startStage(t, { settings: { sync: { max_waiters: 0 } } })
    const { parley } = stage
    const key = await parley.key()
    const [done = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await parley.ended(done, key)
    assert.equal(completed(await parley.get(`${MESSAGES}/${done}?wait=120`, key)), 'echo: Hello')
    const open = await runningJob(stage, key)
    for (const query of ['', '?wait=0', '?wait=0.0', '?other=1']) {
      const answer = await parley.get(`${MESSAGES}/${open}${query}`, key)
      assert.equal(granted(answer, 200).status, 'assigned')
      assert.equal(answer.headers.get('retry-after'), null)
    }
  })

  test('4.2 a wait whose time is over is answered with the current state, without Retry-After', async (t) => {
    const stage = await startStage(t)
    const key = await stage.parley.key()
    const id = await runningJob(stage, key)
    const waiting = await waitingRead(t, stage, key, `${MESSAGES}/${id}?wait=1.5`)
    const answer = await afterTime(stage, 1500, waiting)
    assert.equal(granted(answer, 200).status, 'assigned')
    assert.equal(answer.headers.get('retry-after'), null)
    await pendingResponsesAre(t, stage.parley, 0)
  })

  test('4.2 a wait ends in time though it cannot be announced to other nodes', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    parley.store.announceWaits = () => new Promise(() => {})
    const waiting = await waitingRead(t, stage, key, `${MESSAGES}/${id}?wait=10`)
    assert.equal(granted(await afterTime(stage, 10_000, waiting), 200).status, 'assigned')
  })

  test('4.2 400 for a wait that is not a number of seconds from 0 to 120', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    for (const wait of [
      '120.001',
      '121',
      '-1',
      '',
      'x',
      '1e1',
      '0x10',
      '+1',
      ' 1',
      'NaN',
      '1s',
      'Infinity',
    ]) {
      invalid(
        await parley.get(`${MESSAGES}/${randomUUID()}?wait=${encodeURIComponent(wait)}`, key),
        /^wait: /,
      )
    }
    invalid(await parley.get(`${MESSAGES}/${randomUUID()}?wait=1&wait=2`, key), /^wait: /)
    refused(await parley.get(`${MESSAGES}/${randomUUID()}?wait=120`, key), 404)
  })

  test('4.2 a wait counts as one read', async (t) => {
    const stage = await startStage(t, { settings: { tiers: { user_max: { reads_per_minute: 2 } } } })
    const { parley, clock } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    for (const remaining of ['1', '0']) {
      const waiting = await waitingRead(t, stage, key, `${MESSAGES}/${id}?wait=5`)
      const answer = await afterTime(stage, 5000, waiting)
      assert.equal(answer.headers.get('ratelimit-remaining'), remaining)
    }
    refused(await parley.get(`${MESSAGES}/${id}?wait=5`, key), 429)
    clock.advance(60_000)
  })

  test('4.2 over sync.max_waiters or the share of the account: the current state at once, with Retry-After', async (t) => {
    const stage = await startStage(t, { settings: { sync: { max_waiters: 4 } } })
    const { parley, models } = stage
    const [crowd, other] = [await parley.key('user_max', 'crowd'), await parley.key('user_max', 'other')]
    const [mine, theirs] = [await runningJob(stage, crowd), await runningJob(stage, other)]
    // One of the four waiting slots is reserved; another account may use it.
    const waits = [
      parley.get(`${MESSAGES}/${mine}?wait=60`, crowd),
      parley.get(`${MESSAGES}/${mine}?wait=60`, crowd),
    ]
    waits.push((await waitingRead(t, stage, crowd, `${MESSAGES}/${mine}?wait=60`, 3)).answer)
    const overShare = await parley.get(`${MESSAGES}/${mine}?wait=60`, crowd)
    waits.push((await waitingRead(t, stage, other, `${MESSAGES}/${theirs}?wait=60`, 4)).answer)
    const overAll = await parley.get(`${MESSAGES}/${theirs}?wait=60`, other)
    for (const answer of [overShare, overAll]) {
      assert.equal(granted(answer, 200).status, 'assigned')
      assert.equal(answer.headers.get('retry-after'), '2')
    }
    models.release()
    for (const answer of await Promise.all(waits)) assert.equal(granted(answer, 200).status, 'completed')
  })

  test('4.2 a stopping server ends a wait with the current state, Retry-After and a closed connection', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const waiting = await waitingRead(t, stage, key, `${MESSAGES}/${id}?wait=60`)
    const stopped = stopAtOnce(stage)
    const answer = await waiting.answer
    assert.equal(granted(answer, 200).status, 'assigned')
    assert.equal(answer.headers.get('retry-after'), '2')
    assert.equal(answer.headers.get('connection'), 'close')
    await stopped
  })

  test('4.2 the slot of a client that hangs up is free at once', async (t) => {
    const stage = await startStage(t)
    const { parley, clock } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const line = openLine(parley)
    line.send(`GET ${MESSAGES}/${id}?wait=60 HTTP/1.1\r\nhost: parley\r\nx-api-key: ${key}\r\n\r\n`)
    await pendingResponsesAre(t, parley, 1)
    line.hangUp()
    await pendingResponsesAre(t, parley, 0)
    assert.ok(!clock.pending().includes(60_000))
  })

  test('4.2 a wait for another account’s job is 404 at once, and takes no slot', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const [mine, theirs] = [await parley.key('user_max', 'mine'), await parley.key('user_max', 'theirs')]
    const id = await runningJob(stage, theirs)
    refused(await parley.get(`${MESSAGES}/${id}?wait=60`, mine), 404)
    await pendingResponsesAre(t, parley, 0)
  })

  test('4.2 a wait for a job that is cancelled is answered with its end', async (t) => {
    const stage = await startStage(t)
    const { parley, clock } = stage
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const waiting = await waitingRead(t, stage, key, `${MESSAGES}/${id}?wait=60`)
    assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
    clock.advance(500)
    assert.equal(failed(await waiting.answer).code, 'cancelled')
  })

  test('4.2 a wait on another node is answered when the job has ended, without a poll', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    if (!parley.database.startsWith('postgres')) return t.skip('a file has one node')
    const other = await startStage(t, { after: stage })
    const key = await parley.key()
    const id = await runningJob(stage, key)
    const [one, many] = [
      other.parley.get(`${MESSAGES}/${id}?wait=60`, key),
      other.parley.get(`${MESSAGES}/${id}?wait=60`, key),
    ]
    await pendingResponsesAre(t, other.parley, 2)
    models.release()
    // The clock stands still, so Parley doesn't poll the database and must have been notified.
    for (const answer of [await one, await many]) assert.match(completed(answer), /^echo: /)
  })

  test('4.1 4.3 a 202 says where the job is and when to read it', async (t) => {
    const stage = await startStage(t, { script: () => reply.stall() })
    const { parley, models, clock } = stage
    const key = await parley.key()
    const created = parley.post(MESSAGES, job({ timeout: 30 }), key)
    await models.received(1)
    clock.advance(30_000)
    const single = await created
    const id = timedOut(single)
    assert.equal(single.headers.get('location'), `${MESSAGES}/${id}`)
    assert.equal(single.headers.get('retry-after'), '1')
    assert.equal(granted(await parley.get(single.headers.get('location') ?? '', key), 200).job_id, id)
    const batch = await parley.post(BATCHES, [job()], key)
    enqueued(batch, 1)
    assert.equal(batch.headers.get('location'), null)
    assert.equal(batch.headers.get('retry-after'), '1')
  })
})
