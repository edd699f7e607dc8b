/**
 * Tests cancelled jobs: within half a second, the call ends and waiting callers get their responses, whoever cancelled the job.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { enqueued, failed, granted } from './expect.ts'
import { pendingResponsesAre, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const LOOK_MS = 500

onEachStore(() => {
  test('a running job: its call to the model server is cut off, and the next job takes its slot', async (t) => {
    const { parley, models, clock } = await startStage(t, {
      settings: { jobs: { concurrency: 1 } },
      script: (_request, index) => (index === 0 ? reply.stall() : undefined),
    })
    const key = await parley.key()
    const [running = '', waiting = ''] = enqueued(await parley.post(BATCHES, [job(), job()], key), 2)
    await models.received(1)
    assert.equal(await parley.store.cancelJob(running, clock.nowMs()), 'cancelled')
    const error = failed(await parley.get(`${MESSAGES}/${running}`, key))
    assert.deepEqual(error, {
      code: 'cancelled',
      message: 'An operator of the service cancelled the job.',
      cancelled_by: 'operator',
    })
    clock.advance(LOOK_MS)
    assert.equal(await models.requests[0]?.ended, 'cut')
    assert.equal((await parley.ended(waiting, key)).body.data.status, 'completed')
    assert.equal(failed(await parley.get(`${MESSAGES}/${running}`, key)).code, 'cancelled')
    const { usage } = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls], [2, 1, 1])
  })

  test('callers that wait for a job get its end, whether it ran or was queued', async (t) => {
    const { parley, models, clock } = await startStage(t, {
      settings: { jobs: { concurrency: 1 } },
      script: () => reply.stall(),
    })
    const key = await parley.key()
    const first = parley.post(MESSAGES, job(), key)
    await models.received(1)
    const second = parley.post(MESSAGES, job(), key)
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
