/**
 * Tests cancelled jobs: within half a second, the call ends and waiting callers get their responses, whoever cancelled the job.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { startScene } from './caller.ts'
import { completed, failed } from './expect.ts'
import { pendingResponsesAre } from './stage.ts'

const LOOK_MS = 500
const settings = { jobs: { concurrency: 1 } }

onEachStore(() => {
  test('a running job: its call to the model server is cut off, and the next job takes its slot', async (t) => {
    const { parley, caller, models, clock } = await startScene(t, {
      settings,
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
    const { parley, caller, models, clock } = await startScene(t, { settings, script: () => reply.stall() })
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
