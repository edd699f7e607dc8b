/** What every store guarantees about the crashes that a rescue counts, and when jobs may fail because of them. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { acceptance, claimOf, ids, newJob, now, type On, settlement } from './fixtures.ts'

/** As a worker describes them that fails a job after this many crashes. */
export const failingAfter = (maxCrashCount: number) => ({
  crashCount: Math.max(1, maxCrashCount - 1),
  limit: 1,
  maxCrashCount,
})
/** All counts so far. */
export const AT_ONCE_MS = -1

/** A job that the node held when it crashed; node-a rescues it. */
export async function crashedJob(store: Store, node: string) {
  const job = newJob()
  await store.accept(acceptance([job], { handedOff: true, node }))
  await store.rescue('node-a', now.ms)
  return job
}

/** Confirms the crashes of all nodes that have been absent for this long. */
export async function confirmAll(store: Store, absentMs: number): Promise<void> {
  await store.confirmCrashes(await store.absentNodes(), absentMs)
}

export function crashTests(on: On): void {
  on('a job that is to fail is claimed once its crashes are confirmed', async (store) => {
    const job = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    const [claimed] = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 1])
  })

  on('crashes of nodes that do not come back are not reverted', async (store) => {
    const job = await crashedJob(store, 'node-b')
    assert.equal(await store.revertCrashes(), 0)
    const [claimed] = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(3) })).jobs
    assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 1])
    assert.ok(claimed)
    assert.equal(await store.settle(settlement(claimOf(claimed))), 'settled')
  })

  on('a job that is to fail delays no other job', async (store) => {
    const toFail = await crashedJob(store, 'node-b')
    await confirmAll(store, AT_ONCE_MS)
    const [fresh, other] = [newJob(), newJob()]
    await store.accept(acceptance([fresh]))
    await store.accept(acceptance([other]))
    const claimed = (await store.claim('node-a', 5, now.ms, { candidates: failingAfter(1) })).jobs
    assert.deepEqual(new Set(ids(claimed)), new Set([toFail.id, fresh.id, other.id]))
  })
}
