/**
 * What a store that many nodes share guarantees about nodes that come back after their lease expired: they had not crashed.
 */
import assert from 'node:assert/strict'
import { AT_ONCE_MS, claimFailing, confirmAll, crashedJob, runAndDie } from './crashing.ts'
import {
  acceptance,
  claimNext,
  claimOf,
  claimSuspects,
  expiry,
  ids,
  newJob,
  now,
  type On,
  SUSPECTS,
  settlement,
} from './fixtures.ts'

const LONG_MS = 60_000

export function pauseTests(on: On): void {
  on(
    'a node that has a lease again has its crashes reverted, of queued and of running jobs',
    async (store) => {
      const [running, queued] = [newJob(), newJob()]
      await store.accept(acceptance([running, queued], { handedOff: true, node: 'node-b' }))
      assert.equal(await store.rescue('node-a', now.ms), 2)
      const { jobs } = await store.claim('node-a', 1, now.ms, { ...SUSPECTS, crashCount: 1 })
      await store.renew('node-b', LONG_MS)
      assert.equal(await store.revertCrashes(), 2)
      assert.equal(await store.revertCrashes(), 0)
      assert.deepEqual(ids(jobs), [running.id])
      assert.equal((await store.findJob(running.id, expiry()))?.crashCount, 0)
      const [next] = await claimNext(store, 'node-a', 5)
      assert.deepEqual([next?.id, next?.crashCount], [queued.id, 0])
    },
  )

  on('only the crashes of the node that came back are reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await runAndDie(store, 'node-c', 1)
    await runAndDie(store, 'node-b', 2)
    await runAndDie(store, 'node-d', 3)
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
    const claimed = await claimNext(store, 'node-a', 1000)
    assert.deepEqual(
      [claimed.length, new Set(claimed.map(({ crashCount }) => crashCount))],
      [100, new Set([0])],
    )
  })

  on('a job that is to fail waits until every one of its crashes is confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    await runAndDie(store, 'node-c', 1)
    assert.deepEqual(await claimFailing(store, 2), [])
    // For this long, one of its crashes may still turn out to have been a pause.
    await confirmAll(store, LONG_MS)
    assert.deepEqual(await claimFailing(store, 2), [])
    await confirmAll(store, AT_ONCE_MS)
    const [claimed] = await claimFailing(store, 2)
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 2])
  })

  on('a job that did not crash alone runs again before its crash is confirmed', async (store) => {
    const jobs = [newJob(), newJob()]
    await store.accept(acceptance(jobs, { handedOff: true, node: 'node-b' }))
    await store.rescue('node-a', now.ms)
    assert.deepEqual(ids(await claimFailing(store, 1)).toSorted(), jobs.map(({ id }) => id).toSorted())
  })

  on('only the crashes of the nodes that are named are confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await runAndDie(store, 'node-c', 1)
    assert.deepEqual((await store.absentNodes()).toSorted(), ['node-b', 'node-c'])
    await store.confirmCrashes(['node-c'], AT_ONCE_MS)
    assert.deepEqual(await store.absentNodes(), ['node-b'])
    assert.deepEqual(await claimFailing(store, 2), [])
    await store.confirmCrashes(['node-b'], AT_ONCE_MS)
    assert.deepEqual(await store.absentNodes(), [])
    const [claimed] = await claimFailing(store, 2)
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 2])
  })

  on('a node that has a lease again is not absent', async (store) => {
    await crashedJob(store, 'node-b')
    await store.renew('node-b', LONG_MS)
    assert.deepEqual(await store.absentNodes(), [])
  })

  on('a job that was to fail runs again when its node comes back', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.deepEqual(await claimFailing(store, 1), [])
    await store.renew('node-b', LONG_MS)
    await store.confirmCrashes(['node-b'], AT_ONCE_MS)
    assert.deepEqual(await claimFailing(store, 1), [], 'the node lives')
    await store.revertCrashes()
    const [claimed] = await claimNext(store, 'node-a', 5)
    assert.deepEqual([claimed?.id, claimed?.crashCount, claimed?.crashedAlone], [job.id, 0, false])
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
    const [claimed] = await claimSuspects(store, 'node-a')
    assert.ok(claimed)
    await store.settle(settlement(claimOf(claimed)))
    await store.expire({ nowMs: now.ms, retentionMs: LONG_MS })
    await store.renew('node-b', LONG_MS)
    assert.equal(await store.revertCrashes(), 0)
    assert.equal((await store.findJob(job.id, expiry()))?.crashCount, 1)
  })
}
