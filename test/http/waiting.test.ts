/** Tests a read that waits for its job, `GET /api/v1/messages/{jobId}?wait=SECONDS`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { callerOf, MESSAGES, runningJob, type Scene, shareStage, startScene } from './caller.ts'
import { completed, failed, granted, invalid, refused, timedOut } from './expect.ts'
import { openLine } from './raw-http.ts'
import { pendingResponsesAre, startStage, stopAtOnce } from './stage.ts'

/** Asserts that the wait lasts `ms` milliseconds, by advancing the clock; resolves with the response. */
async function afterTime({ clock }: Pick<Scene, 'clock'>, ms: number, answer: Promise<Answer>) {
  clock.advance(ms - 1)
  assert.ok(clock.pending().includes(1), 'the wait ended early')
  clock.advance(1)
  return answer
}

/** Asserts that the response shows a running job; returns its Retry-After. */
function running(answer: Answer): string | null {
  assert.equal(granted(answer, 200).status, 'assigned')
  return answer.headers.get('retry-after')
}

onEachStore(async () => {
  const begin = await shareStage()

  test('4.2 a wait is answered as soon as the job has ended, with the same bytes as a read', async (t) => {
    const scene = await begin(t)
    const { parley, caller, models } = scene
    const id = await runningJob(scene)
    const waits = ['?wait=120', '?wait=0.5'].map((query) => caller.read(id, query))
    await pendingResponsesAre(t, parley, 2)
    models.release()
    const read = await caller.ended(id)
    for (const answer of await Promise.all(waits)) {
      assert.match(completed(answer), /^echo: /)
      assert.deepEqual([answer.text, answer.headers.get('retry-after')], [read.text, null])
    }
    await pendingResponsesAre(t, parley, 0)
  })

  test('4.2 a job that has ended is returned at once, and so is any without a wait', async (t) => {
    const scene = await startScene(t, { settings: { sync: { max_waiters: 0 } } })
    const { caller } = scene
    const done = await caller.enqueueOne()
    await caller.ended(done)
    assert.equal(completed(await caller.read(done, '?wait=120')), 'echo: Hello')
    const open = await runningJob(scene)
    for (const query of ['', '?wait=0', '?wait=0.0', '?other=1']) {
      assert.equal(running(await caller.read(open, query)), null)
    }
  })

  test('4.2 a wait whose time is over is answered with the current state, without Retry-After', async (t) => {
    const scene = await begin(t)
    const answer = scene.caller.read(await runningJob(scene), '?wait=1.5')
    await pendingResponsesAre(t, scene.parley, 1)
    assert.equal(running(await afterTime(scene, 1500, answer)), null)
    await pendingResponsesAre(t, scene.parley, 0)
  })

  test('4.2 a wait ends in time though it cannot be announced to other nodes', async (t) => {
    const scene = await begin(t)
    const id = await runningJob(scene)
    t.mock.method(scene.parley.store, 'announceWaits', () => new Promise(() => {}))
    const answer = scene.caller.read(id, '?wait=10')
    await pendingResponsesAre(t, scene.parley, 1)
    running(await afterTime(scene, 10_000, answer))
  })

  test('4.2 400 for a wait that is not a number of seconds from 0 to 120', async (t) => {
    const { caller } = await begin(t)
    const id = randomUUID()
    for (const wait of '120.001,121,-1,,x,1e1,0x10,+1, 1,NaN,1s,Infinity'.split(',')) {
      invalid(await caller.read(id, `?wait=${encodeURIComponent(wait)}`), /^wait: /)
    }
    invalid(await caller.read(id, '?wait=1&wait=2'), /^wait: /)
    refused(await caller.read(id, '?wait=120'), 404)
  })

  test('4.2 a wait counts as one read', async (t) => {
    const scene = await startScene(t, { settings: { tiers: { user_max: { reads_per_minute: 2 } } } })
    const { parley, caller, clock } = scene
    const id = await runningJob(scene)
    for (const remaining of ['1', '0']) {
      const waiting = caller.read(id, '?wait=5')
      await pendingResponsesAre(t, parley, 1)
      const answer = await afterTime(scene, 5000, waiting)
      assert.equal(answer.headers.get('ratelimit-remaining'), remaining)
    }
    refused(await caller.read(id, '?wait=5'), 429)
    clock.advance(60_000)
  })

  test('4.2 over sync.max_waiters or the share of the account: the current state at once, with Retry-After', async (t) => {
    const scene = await startScene(t, { settings: { sync: { max_waiters: 4 } }, account: 'crowd' })
    const { parley, caller: crowd, models } = scene
    const other = await callerOf(parley, 'user_max', 'other')
    const [mine, theirs] = [await runningJob(scene), await runningJob({ ...scene, caller: other })]
    // One of the four waiting slots is reserved; another account may use it.
    const waits = [1, 2, 3].map(() => crowd.read(mine, '?wait=60'))
    await pendingResponsesAre(t, parley, 3)
    assert.equal(running(await crowd.read(mine, '?wait=60')), '2')
    waits.push(other.read(theirs, '?wait=60'))
    await pendingResponsesAre(t, parley, 4)
    assert.equal(running(await other.read(theirs, '?wait=60')), '2')
    models.release()
    for (const answer of await Promise.all(waits)) assert.equal(granted(answer, 200).status, 'completed')
  })

  test('4.2 a stopping server ends a wait with the current state, Retry-After and a closed connection', async (t) => {
    const scene = await startScene(t)
    const waiting = scene.caller.read(await runningJob(scene), '?wait=60')
    await pendingResponsesAre(t, scene.parley, 1)
    const stopped = stopAtOnce(scene)
    const answer = await waiting
    assert.deepEqual([running(answer), answer.headers.get('connection')], ['2', 'close'])
    await stopped
  })

  test('4.2 the slot of a client that hangs up is free at once', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const path = `${MESSAGES}/${await runningJob(scene)}?wait=60`
    const line = openLine(parley)
    line.send(`GET ${path} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${caller.key}\r\n\r\n`)
    await pendingResponsesAre(t, parley, 1)
    line.hangUp()
    await pendingResponsesAre(t, parley, 0)
    assert.ok(!clock.pending().includes(60_000))
  })

  test('4.2 a wait for another account’s job is 404 at once, and takes no slot', async (t) => {
    const scene = await begin(t)
    const mine = await callerOf(scene.parley, 'user_max', 'mine')
    refused(await mine.read(await runningJob(scene), '?wait=60'), 404)
    await pendingResponsesAre(t, scene.parley, 0)
  })

  test('4.2 a wait for a job that is cancelled is answered with its end', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const id = await runningJob(scene)
    const waiting = caller.read(id, '?wait=60')
    await pendingResponsesAre(t, parley, 1)
    assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
    clock.advance(500)
    assert.equal(failed(await waiting).code, 'cancelled')
  })

  test('4.2 a wait on another node is answered when the job has ended, without a poll', async (t) => {
    const scene = await startScene(t)
    if (!scene.parley.store.shared) return t.skip('a file has one node')
    const { parley } = await startStage(t, { after: scene })
    const id = await runningJob(scene)
    const waits = [1, 2].map(() => scene.caller.at(parley).read(id, '?wait=60'))
    await pendingResponsesAre(t, parley, 2)
    scene.models.release()
    // The clock stands still, so Parley doesn't poll the database and must have been notified.
    for (const answer of await Promise.all(waits)) assert.match(completed(answer), /^echo: /)
  })

  test('4.1 4.3 a 202 says where the job is and when to read it', async (t) => {
    const { caller, models, clock } = await begin(t, () => reply.stall())
    const created = caller.create({ timeout: 30 })
    await models.received(1)
    clock.advance(30_000)
    const single = await created
    const location = `${MESSAGES}/${timedOut(single)}`
    const batch = await caller.batch([job()])
    assert.equal(batch.status, 202)
    for (const [answer, expected] of [
      [single, location],
      [batch, null],
    ] as const) {
      assert.deepEqual([answer.headers.get('location'), answer.headers.get('retry-after')], [expected, '1'])
    }
    granted(await caller.get(location), 200)
  })
})
