/**
 * Tests what every store guarantees about the crashes that a rescue counts, and when jobs may fail because of them. A shared
 * store also guarantees that nodes which come back after their lease expired had not crashed.
 */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { claimOf, expiry, ids, newJob, now, type On, SUSPECTS, settlement, several } from './fixtures.ts'
import { accept, addQueued, claimNext, claimSuspects } from './steps.ts'

/** Every absence is longer than this, so all crashes so far are confirmed. */
const AT_ONCE_MS = -1
const LONG_MS = 60_000

async function crashedJob(store: Store, node: string) {
  const [job] = await accept(store, [newJob()], { handedOff: true, node })
  await store.rescue('node-a', now.ms)
  return job
}

/** Claims suspects as a worker that fails a job after so many crashes. */
async function claimFailing(store: Store, crashCount: number) {
  const from = { ...SUSPECTS, crashCount, maxCrashCount: crashCount }
  const { jobs } = await store.claim('node-a', 5, now.ms, from)
  return jobs.map(({ id, crashCount, crashedAlone }) => ({ id, crashCount, crashedAlone }))
}

/** The node claims the suspects with this crash count, executes them, crashes, and is found dead. */
async function runAndDie(store: Store, node: string, crashCount: number) {
  const claimed = await claimSuspects(store, node, crashCount)
  await store.recordStarts(node, claimed.map(claimOf))
  assert.equal(await store.rescue('node-a', now.ms), claimed.length)
}

async function confirmAll(store: Store, absentMs: number): Promise<void> {
  await store.confirmCrashes(await store.absentNodes(), absentMs)
}

const crashCountOf = async (store: Store, jobId: string) => (await store.findJob(jobId, expiry()))?.crashCount

export function crashTests(on: On): void {
  on('a job that is to fail is claimed once its crashes are confirmed', async (store) => {
    const { id } = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    assert.deepEqual(await claimFailing(store, 1), [{ id, crashCount: 1, crashedAlone: true }])
  })

  on('crashes of nodes that do not come back are not reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.equal(await store.revertCrashes(), 0)
    const [claimed] = await claimSuspects(store, 'node-a')
    assert.ok(claimed)
    assert.deepEqual([claimed.id, claimed.crashCount], [job.id, 1])
    assert.equal(await store.settle(settlement(claimOf(claimed))), 'settled')
  })

  on('suspects are claimed by crash count, in order, past the routes that are excepted', async (store) => {
    const dead = { handedOff: true, node: 'dead' }
    const [first, second] = await accept(store, [newJob(), newJob()], { ...dead, route: 'a/m' })
    const [third] = await accept(store, [newJob()], { ...dead, route: 'b/m' })
    assert.equal(await store.rescue('node-a', now.ms), 3)
    assert.deepEqual(await store.queuedSuspects(), { queued: 3, mostCrashes: 1, withMost: 3 })
    const claim = async (limit: number, exceptRoutes: readonly string[] = []) => {
      const claimed = await store.claim('dead', limit, now.ms, { ...SUSPECTS, crashCount: 1, exceptRoutes })
      return [ids(claimed.jobs), claimed.mayHaveMore]
    }
    assert.deepEqual(await claim(1), [[first.id], true])
    await store.recordStarts('dead', [{ jobId: first.id, attempt: 2 }])
    await store.rescue('node-a', now.ms)
    assert.deepEqual(await store.queuedSuspects(), { queued: 3, mostCrashes: 2, withMost: 1 })
    assert.deepEqual(await claim(9, ['a/m']), [[third.id], false])
    assert.deepEqual(await claim(9), [[second.id], false])
    const [twice] = await claimSuspects(store, 'node-a', 2)
    assert.deepEqual([twice?.id, twice?.attempt, twice?.crashCount], [first.id, 3, 2])
    assert.deepEqual(await store.queuedSuspects(), { queued: 0, mostCrashes: 0, withMost: 0 })
  })

  on('from the first crash on, only a crash after a recorded start counts', async (store) => {
    const job = await crashedJob(store, 'node-b')
    const countAfterCrash = async () => {
      await store.rescue('node-a', now.ms)
      return crashCountOf(store, job.id)
    }
    const claim = async (crashCount: number) => {
      const [claimed] = await claimSuspects(store, 'node-b', crashCount)
      assert.ok(claimed)
      return [claimOf(claimed)]
    }
    const waited = await claim(1)
    assert.equal(await countAfterCrash(), 1)
    await claim(1)
    // The recorded start belongs to an attempt that has ended, and only the holder records starts.
    await store.recordStarts('node-b', waited)
    await store.recordStarts('node-c', [{ jobId: job.id, attempt: 3 }])
    assert.equal(await countAfterCrash(), 1)
    await store.recordStarts('node-b', await claim(1))
    assert.equal(await countAfterCrash(), 2)
    const released = await claim(2)
    await store.recordStarts('node-b', released)
    await store.release('node-b', released)
    await claim(2)
    assert.equal(await countAfterCrash(), 2)
  })

  on('a job crashed alone if no other of its node is as suspect', async (store) => {
    /** All suspects with this crash count must be among the jobs. */
    const areAlone = async (crashCount: number, ...jobs: readonly { readonly id: string }[]) => {
      const claimed = await claimSuspects(store, 'node-b', crashCount)
      assert.equal(claimed.length, jobs.length)
      return jobs.map((job) => claimed.find(({ id }) => id === job.id)?.crashedAlone)
    }
    const crash = async (...started: readonly { jobId: string; attempt: number }[]) => {
      await store.recordStarts('node-b', started)
      await store.rescue('node-a', now.ms)
    }
    const onB = { handedOff: true, node: 'node-b' }
    const [one, two, three] = await accept(store, [newJob(), newJob(), newJob()], onB)
    const [apart] = await accept(store, [newJob()], { handedOff: true, node: 'node-c' })
    await crash()
    assert.deepEqual(await areAlone(1, one, two, three, apart), [false, false, false, true])
    // Of the suspects, only `one` has started. A job that never crashed runs at the same time.
    const [fresh] = await accept(store, [newJob()], onB)
    await crash({ jobId: one.id, attempt: 2 })
    assert.deepEqual(await areAlone(2, one), [true])
    assert.deepEqual(await areAlone(1, two, three, apart, fresh), [false, false, true, false])
    await crash({ jobId: one.id, attempt: 3 }, { jobId: two.id, attempt: 3 })
    assert.deepEqual(await areAlone(3, one), [false])
    assert.deepEqual(await areAlone(2, two), [false])
  })

  on('suspects delay no other job', async (store) => {
    await crashedJob(store, 'node-b')
    await crashedJob(store, 'node-c')
    const fresh = await addQueued(store)
    assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [fresh.id])
  })
}

export function pauseTests(on: On): void {
  on(
    'a node that has a lease again has its crashes reverted, of queued and of running jobs',
    async (store) => {
      const [running, queued] = await accept(store, [newJob(), newJob()], { handedOff: true, node: 'node-b' })
      assert.equal(await store.rescue('node-a', now.ms), 2)
      const { jobs } = await store.claim('node-a', 1, now.ms, { ...SUSPECTS, crashCount: 1 })
      await store.renew('node-b', LONG_MS)
      for (const reverted of [2, 0]) assert.equal(await store.revertCrashes(), reverted)
      assert.deepEqual(ids(jobs), [running.id])
      assert.equal(await crashCountOf(store, running.id), 0)
      const [next] = await claimNext(store, 'node-a', 5)
      assert.deepEqual([next?.id, next?.crashCount], [queued.id, 0])
    },
  )

  on('only the crashes of the node that came back are reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    for (const [at, node] of ['node-c', 'node-b', 'node-d'].entries()) await runAndDie(store, node, at + 1)
    assert.equal(await crashCountOf(store, job.id), 4)
    for (const [node, reverted, left] of [
      ['node-b', 2, 2],
      ['node-d', 1, 1],
    ] as const) {
      await store.renew(node, LONG_MS)
      assert.equal(await store.revertCrashes(), reverted)
      assert.equal(await crashCountOf(store, job.id), left)
    }
  })

  on('many nodes that revert at the same time revert each crash once', async (store) => {
    const jobs = await accept(store, several(100), { handedOff: true, node: 'node-b' })
    await store.rescue('node-a', now.ms)
    await store.renew('node-b', LONG_MS)
    const counts = await Promise.all(Array.from({ length: 8 }, () => store.revertCrashes()))
    const sum = counts.reduce((all, count) => all + count)
    assert.equal(sum, jobs.length)
    const claimed = await claimNext(store, 'node-a', 1000)
    const crashCounts = new Set(claimed.map(({ crashCount }) => crashCount))
    assert.deepEqual([claimed.length, crashCounts], [100, new Set([0])])
  })

  on('a job that is to fail waits until every one of its crashes is confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    await runAndDie(store, 'node-c', 1)
    assert.deepEqual(await claimFailing(store, 2), [])
    // For this long, one of the job's crashes may still turn out to have been a pause.
    await confirmAll(store, LONG_MS)
    assert.deepEqual(await claimFailing(store, 2), [])
    await confirmAll(store, AT_ONCE_MS)
    assert.deepEqual(await claimFailing(store, 2), [{ id: job.id, crashCount: 2, crashedAlone: true }])
  })

  on('a job that did not crash alone runs again before its crash is confirmed', async (store) => {
    const jobs = await accept(store, several(2), { handedOff: true, node: 'node-b' })
    await store.rescue('node-a', now.ms)
    assert.deepEqual(ids(await claimFailing(store, 1)).toSorted(), ids(jobs).toSorted())
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
    assert.deepEqual(await claimFailing(store, 2), [{ id: job.id, crashCount: 2, crashedAlone: true }])
  })

  on('a job that was to fail runs again when its node comes back', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.deepEqual(await claimFailing(store, 1), [])
    await store.renew('node-b', LONG_MS)
    assert.deepEqual(await store.absentNodes(), [])
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
    assert.equal(await crashCountOf(store, job.id), 0)
  })

  on('crashes of jobs that have ended are forgotten', async (store) => {
    const job = await crashedJob(store, 'node-b')
    const [claimed] = await claimSuspects(store, 'node-a')
    assert.ok(claimed)
    await store.settle(settlement(claimOf(claimed)))
    const open = await crashedJob(store, 'node-c')
    await store.expire({ nowMs: now.ms, retentionMs: LONG_MS })
    for (const node of ['node-b', 'node-c']) await store.renew(node, LONG_MS)
    assert.equal(await store.revertCrashes(), 1)
    assert.equal(await crashCountOf(store, job.id), 1)
    assert.equal(await crashCountOf(store, open.id), 0)
  })
}
