/**
 * What a store that many nodes share guarantees about nodes that come back after their lease expired: they had not crashed.
 */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { AT_ONCE_MS, confirmAll, crashedJob, failingAfter } from './crashing.ts'
import { acceptance, claimOf, expiry, ids, newJob, now, type On, settlement } from './fixtures.ts'

const LONG_MS = 60_000
const NEVER = failingAfter(1000)

export function pauseTests(on: On): void {
  on(
    'a node that has a lease again has its crashes reverted, of queued and of running jobs',
    async (store) => {
      const [running, queued] = [newJob(), newJob()]
      await store.accept(acceptance([running, queued], { handedOff: true, node: 'node-b' }))
      assert.equal(await store.rescue('node-a', now.ms), 2)
      const [claimed] = (await store.claim('node-a', 1, now.ms, { candidates: NEVER })).jobs
      await store.renew('node-b', LONG_MS)
      assert.equal(await store.revertCrashes(), 2)
      assert.equal(await store.revertCrashes(), 0)
      assert.equal(claimed?.id, running.id)
      assert.equal((await store.findJob(running.id, expiry()))?.crashCount, 0)
      const [next] = (await store.claim('node-a', 5, now.ms, { candidates: NEVER })).jobs
      assert.deepEqual([next?.id, next?.crashCount], [queued.id, 0])
    },
  )

  on('only the crashes of the node that came back are reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await holdAndDie(store, 'node-c')
    await holdAndDie(store, 'node-b')
    await holdAndDie(store, 'node-d')
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 4)
    await store.renew('node-b', LONG_MS)
    assert.equal(await store.revertCrashes(), 2)
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 2)
    await store.renew('node-d', LONG_MS)
    assert.equal(await store.revertCrashes(), 1)
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 1)
  })

  on('many nodes that revert at the same time revert each crash once', async (store) => {
    const jobs = Array.from({ length: 100 }, () => newJob())
    await store.accept(acceptance(jobs, { handedOff: true, node: 'node-b' }))
    await store.rescue('node-a', now.ms)
    await store.renew('node-b', LONG_MS)
    const counts = await Promise.all(Array.from({ length: 8 }, () => store.revertCrashes()))
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      jobs.length,
    )
    const claimed = (await store.claim('node-a', 1000, now.ms, { candidates: NEVER })).jobs
    assert.deepEqual(
      [claimed.length, new Set(claimed.map(({ crashCount }) => crashCount))],
      [100, new Set([0])],
    )
  })

  on('a job that is to fail waits until every one of its crashes is confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    await holdAndDie(store, 'node-c')
    assert.deepEqual((await store.claim('node-a', 5, now.ms, { candidates: failingAfter(2) })).jobs, [])
    // For this long, one of its crashes may still turn out to have been a pause.
    await confirmAll(store, LONG_MS)
    assert.deepEqual((await store.claim('node-a', 5, now.ms, { candidates: failingAfter(2) })).jobs, [])
    await confirmAll(store, AT_ONCE_MS)
    const [claimed] = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(2) })).jobs
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 2])
  })

  on('only the crashes of the nodes that are named are confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await holdAndDie(store, 'node-c')
    assert.deepEqual((await store.absentNodes()).toSorted(), ['node-b', 'node-c'])
    await store.confirmCrashes(['node-c'], AT_ONCE_MS)
    assert.deepEqual(await store.absentNodes(), ['node-b'])
    assert.deepEqual((await store.claim('node-a', 5, now.ms, { candidates: failingAfter(2) })).jobs, [])
    await store.confirmCrashes(['node-b'], AT_ONCE_MS)
    assert.deepEqual(await store.absentNodes(), [])
    const [claimed] = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(2) })).jobs
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 2])
  })

  on('a node that has a lease again is not absent', async (store) => {
    await crashedJob(store, 'node-b')
    await store.renew('node-b', LONG_MS)
    assert.deepEqual(await store.absentNodes(), [])
  })

  on('a job that was to fail runs again when its node comes back', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.deepEqual((await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs, [])
    await store.renew('node-b', LONG_MS)
    await store.confirmCrashes(['node-b'], AT_ONCE_MS)
    assert.deepEqual(
      (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs,
      [],
      'the node lives',
    )
    await store.revertCrashes()
    const [claimed] = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 0])
  })

  on('jobs that are to fail and wait hold up no other job', async (store) => {
    await crashedJob(store, 'node-b')
    await crashedJob(store, 'node-c')
    const fresh = newJob()
    await store.accept(acceptance([fresh]))
    assert.deepEqual(ids((await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs), [
      fresh.id,
    ])
  })

  on('a confirmed crash is reverted too, if the node comes back before the job has ended', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    await store.renew('node-b', LONG_MS)
    assert.equal(await store.revertCrashes(), 1)
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 0)
  })

  on('crashes of jobs that have ended are forgotten', async (store) => {
    const job = await crashedJob(store, 'node-b')
    const [claimed] = (await store.claim('node-a', 1, now.ms, { candidates: NEVER })).jobs
    assert.ok(claimed)
    await store.settle(settlement(claimOf(claimed)))
    await store.expire({ nowMs: now.ms, retentionMs: LONG_MS })
    await store.renew('node-b', LONG_MS)
    assert.equal(await store.revertCrashes(), 0)
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 1)
  })
}

/** The node claims the queued job, crashes, and is found dead. */
async function holdAndDie(store: Store, node: string): Promise<void> {
  const claimed = (await store.claim(node, 1, now.ms, { candidates: NEVER })).jobs
  assert.equal(claimed.length, 1)
  assert.equal(await store.rescue('node-a', now.ms), 1)
}
