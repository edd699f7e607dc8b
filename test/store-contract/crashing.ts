/** What every store guarantees about the crashes that a rescue counts, and when jobs may fail because of them. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
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

/** Every node has been absent for longer, so all crashes so far are confirmed. */
export const AT_ONCE_MS = -1

/** A job that the node held when it crashed; node-a rescues it. */
export async function crashedJob(store: Store, node: string) {
  const job = newJob()
  await store.accept(acceptance([job], { handedOff: true, node }))
  await store.rescue('node-a', now.ms)
  return job
}

/** Claims suspects with this crash count, like a worker that fails a job after so many crashes. */
export async function claimFailing(store: Store, crashCount: number) {
  return (await store.claim('node-a', 5, now.ms, { ...SUSPECTS, crashCount, maxCrashCount: crashCount })).jobs
}

/** The node claims the suspects with this crash count, executes them, crashes, and is found dead. */
export async function runAndDie(store: Store, node: string, crashCount: number) {
  const claimed = await claimSuspects(store, node, crashCount)
  await store.recordStarts(node, claimed.map(claimOf))
  assert.equal(await store.rescue('node-a', now.ms), claimed.length)
}

/** Confirms the crashes of all nodes that have been absent for this long. */
export async function confirmAll(store: Store, absentMs: number): Promise<void> {
  await store.confirmCrashes(await store.absentNodes(), absentMs)
}

export function crashTests(on: On): void {
  on('a job that is to fail is claimed once its crashes are confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    const [claimed] = await claimFailing(store, 1)
    assert.deepEqual([claimed?.id, claimed?.crashCount, claimed?.crashedAlone], [job.id, 1, true])
  })

  on('crashes of nodes that do not come back are not reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.equal(await store.revertCrashes(), 0)
    const [claimed] = await claimSuspects(store, 'node-a')
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 1])
    assert.ok(claimed)
    assert.equal(await store.settle(settlement(claimOf(claimed))), 'settled')
  })

  on('suspects are claimed by crash count, in order, past the routes that are excepted', async (store) => {
    const [first, second, third] = [newJob(), newJob(), newJob()]
    await store.accept(acceptance([first, second], { handedOff: true, node: 'dead', route: 'a/m' }))
    await store.accept(acceptance([third], { handedOff: true, node: 'dead', route: 'b/m' }))
    assert.equal(await store.rescue('node-a', now.ms), 3)
    assert.deepEqual(await store.queuedSuspects(), { queued: 3, mostCrashes: 1, withMost: 3 })
    const claim = async (limit: number, exceptRoutes: readonly string[] = []) =>
      store.claim('dead', limit, now.ms, { ...SUSPECTS, crashCount: 1, exceptRoutes })
    const one = await claim(1)
    assert.deepEqual([ids(one.jobs), one.mayHaveMore], [[first.id], true])
    await store.recordStarts('dead', [{ jobId: first.id, attempt: 2 }])
    await store.rescue('node-a', now.ms)
    assert.deepEqual(await store.queuedSuspects(), { queued: 3, mostCrashes: 2, withMost: 1 })
    assert.deepEqual(ids((await claim(9, ['a/m'])).jobs), [third.id])
    const rest = await claim(9)
    assert.deepEqual([ids(rest.jobs), rest.mayHaveMore], [[second.id], false])
    const [twice] = await claimSuspects(store, 'node-a', 2)
    assert.deepEqual([twice?.id, twice?.attempt, twice?.crashCount], [first.id, 3, 2])
    assert.deepEqual(await store.queuedSuspects(), { queued: 0, mostCrashes: 0, withMost: 0 })
  })

  on('from the first crash on, only a crash after a recorded start counts', async (store) => {
    const job = await crashedJob(store, 'node-b')
    const countAfterCrash = async () => {
      await store.rescue('node-a', now.ms)
      return (await store.findJob(job.id, expiry()))?.crashCount
    }
    const [waited] = await claimSuspects(store, 'node-b')
    assert.equal(await countAfterCrash(), 1)
    assert.ok(waited)
    await claimSuspects(store, 'node-b')
    // The recorded start belongs to an attempt that has ended, and only the holder records starts.
    await store.recordStarts('node-b', [claimOf(waited)])
    await store.recordStarts('node-c', [{ jobId: job.id, attempt: 3 }])
    assert.equal(await countAfterCrash(), 1)
    const [started] = await claimSuspects(store, 'node-b')
    assert.ok(started)
    await store.recordStarts('node-b', [claimOf(started)])
    assert.equal(await countAfterCrash(), 2)
    const [released] = await claimSuspects(store, 'node-b', 2)
    assert.ok(released)
    await store.recordStarts('node-b', [claimOf(released)])
    await store.release('node-b', [claimOf(released)])
    await claimSuspects(store, 'node-b', 2)
    assert.equal(await countAfterCrash(), 2)
  })

  on('a job crashed alone if no other of its node is as suspect', async (store) => {
    const isAlone = async (crashCount: number) => {
      const claimed = await claimSuspects(store, 'node-b', crashCount)
      return new Map(claimed.map(({ id, crashedAlone }) => [id, crashedAlone]))
    }
    const [one, two, three, apart] = [newJob(), newJob(), newJob(), newJob()]
    await store.accept(acceptance([one, two, three], { handedOff: true, node: 'node-b' }))
    await store.accept(acceptance([apart], { handedOff: true, node: 'node-c' }))
    await store.rescue('node-a', now.ms)
    const first = await isAlone(1)
    assert.deepEqual(
      ids([one, two, three, apart]).map((id) => first.get(id)),
      [false, false, false, true],
    )
    // Of the suspects, only `one` has started. A job that never crashed runs at the same time.
    await store.recordStarts('node-b', [{ jobId: one.id, attempt: 2 }])
    const fresh = newJob()
    await store.accept(acceptance([fresh], { handedOff: true, node: 'node-b' }))
    await store.rescue('node-a', now.ms)
    assert.deepEqual(await isAlone(2), new Map([[one.id, true]]))
    const others = await isAlone(1)
    assert.deepEqual(
      ids([two, three, apart, fresh]).map((id) => others.get(id)),
      [false, false, true, false],
    )
    await store.recordStarts('node-b', [
      { jobId: one.id, attempt: 3 },
      { jobId: two.id, attempt: 3 },
    ])
    await store.rescue('node-a', now.ms)
    assert.deepEqual(await isAlone(3), new Map([[one.id, false]]))
    assert.deepEqual(await isAlone(2), new Map([[two.id, false]]))
  })

  on('suspects delay no other job', async (store) => {
    await crashedJob(store, 'node-b')
    await crashedJob(store, 'node-c')
    const fresh = newJob()
    await store.accept(acceptance([fresh]))
    assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [fresh.id])
  })
}
