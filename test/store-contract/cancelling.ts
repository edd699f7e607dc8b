/** What every store guarantees about cancelling: an outcome like any other, whichever node holds the job. */
import assert from 'node:assert/strict'
import { acceptance, claimNext, claimOf, expiry, ids, newJob, now, type On, settlement } from './fixtures.ts'

const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export function cancelTests(on: On): void {
  const all = (over: { account?: string; running?: boolean; beforeJobId?: string; limit?: number } = {}) => ({
    account: 'acme',
    running: false,
    beforeJobId: AFTER_ALL,
    limit: 100,
    nowMs: now.ms,
    ...over,
  })

  on('cancels a queued job: it has failed, is never claimed, and its callback is owed', async (store) => {
    const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const [job, next] = [newJob({ callback }), newJob()]
    await store.accept(acceptance([job, next]))
    assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
    const read = await store.read('acme', job.id, expiry())
    assert.equal(read?.status, 'failed')
    assert.equal(JSON.parse(read?.errorJson ?? '').code, 'cancelled')
    assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [next.id])
    const take = {
      node: 'node-a',
      queue: 'first',
      limit: 5,
      nowMs: now.ms,
      leaseUntilMs: now.ms + 1000,
    } as const
    const owed = await store.takeCallbacks(take)
    assert.deepEqual(
      owed.map(({ jobId }) => jobId),
      [job.id],
    )
    const found = await store.findJob(job.id, expiry())
    assert.deepEqual([found?.errorCode, found?.usage?.calls, found?.settledAtMs], ['cancelled', 0, now.ms])
  })

  on(
    'cancels a running job: its node learns it once, and what that node writes changes nothing',
    async (store) => {
      const job = newJob()
      await store.accept(acceptance([job], { handedOff: true }))
      const claim = { jobId: job.id, attempt: 1 }
      assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
      assert.deepEqual(await store.takeCancelled('node-a'), [claim])
      assert.deepEqual(await store.takeCancelled('node-a'), [])
      assert.equal(await store.settle(settlement(claim)), 'stale')
      await store.release('node-a', [claim])
      assert.deepEqual(await claimNext(store, 'node-a', 5), [])
      assert.equal((await store.read('acme', job.id, expiry()))?.status, 'failed')
      assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
    },
  )

  on('reports a queued job to the node that has a pending response for it', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { awaited: true }))
    await store.cancelJob(job.id, now.ms)
    assert.deepEqual(await store.takeCancelled('node-a'), [{ jobId: job.id, attempt: 0 }])
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
  })

  on('cancels a released job, and leaves alone what has ended or never existed', async (store) => {
    const [returned, done] = [newJob(), newJob()]
    await store.accept(acceptance([returned, done]))
    const claimed = await claimNext(store, 'node-a', 2)
    const [first, second] = claimed.map(claimOf)
    assert.ok(first && second)
    await store.release('node-a', [first])
    await store.settle(settlement(second))
    assert.equal(await store.cancelJob(returned.id, now.ms), 'cancelled')
    assert.equal(await store.cancelJob(returned.id, now.ms), 'ended before')
    assert.equal(await store.cancelJob(done.id, now.ms), 'ended before')
    assert.equal((await store.read('acme', done.id, expiry()))?.status, 'completed')
    assert.equal(await store.cancelJob(newJob().id, now.ms), 'unknown')
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
  })

  on('cancels the queued jobs of one account, some at a time', async (store) => {
    const mine = Array.from({ length: 5 }, () => newJob())
    const others = [newJob({ account: 'other' }), newJob({ account: 'other' })]
    const running = newJob()
    await store.accept(acceptance([...mine, ...others]))
    await store.accept(acceptance([running], { handedOff: true }))
    assert.equal(await store.cancelJobs(all({ limit: 3 })), 3)
    assert.equal(await store.cancelJobs(all({ limit: 3 })), 2)
    assert.equal(await store.cancelJobs(all({ limit: 3 })), 0)
    assert.equal((await store.read('acme', running.id, expiry()))?.status, 'assigned')
    assert.deepEqual(ids(await claimNext(store, 'node-a', 9)).sort(), ids(others).sort())
    const usage = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      usage.map(({ account, jobs, failedJobs }) => [account, jobs, failedJobs]),
      [['acme', 5, 5]],
    )
  })

  on('frees what each of the cancelled jobs reserved, and counts it under its model', async (store) => {
    const [kept, other] = [newJob({ reserved: 100 }), newJob({ account: 'other', reserved: 3 })]
    await store.accept(acceptance([kept], { handedOff: true }))
    await store.accept(acceptance([other]))
    await store.accept(
      acceptance([
        newJob({ reserved: 10 }),
        newJob({ reserved: 5, model: 'gpt-5' }),
        newJob({ reserved: 7 }),
      ]),
    )
    assert.equal(await store.cancelJobs(all()), 3)
    const reserved = async (account: string) => (await store.quotaUse(account)).reserved
    assert.deepEqual([await reserved('acme'), await reserved('other')], [100, 3])
    const usage = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      usage.map(({ account, model, jobs, failedJobs, cost }) => [account, model, jobs, failedJobs, cost]),
      [
        ['acme', 'gpt-5', 1, 1, 0],
        ['acme', 'gpt-5-mini', 2, 2, 0],
      ],
    )
  })

  on('cancels running jobs too if requested, and none that came later', async (store) => {
    const [waiting, running, held] = [newJob(), newJob(), newJob({ account: 'other' })]
    await store.accept(acceptance([waiting]))
    await store.accept(acceptance([running, held], { handedOff: true }))
    now.ms += 10
    const later = newJob()
    await store.accept(acceptance([later]))
    assert.equal(await store.cancelJobs(all({ running: true, beforeJobId: later.id })), 2)
    const cancelled = await store.takeCancelled('node-a')
    assert.deepEqual(
      cancelled.filter(({ attempt }) => attempt > 0),
      [{ jobId: running.id, attempt: 1 }],
    )
    assert.deepEqual(ids(await claimNext(store, 'node-a', 9)), [later.id])
    assert.equal((await store.read('other', held.id, expiry()))?.status, 'assigned')
  })
}
