/** What every store guarantees about jobs that return to the queue: released, or rescued from a dead node. */
import assert from 'node:assert/strict'
import {
  acceptance,
  claimNext,
  claimOf,
  claimSuspects,
  expiry,
  newJob,
  now,
  type On,
  settlement,
} from './fixtures.ts'

export function returnTests(on: On): void {
  on('a released job is claimed next, still reads as assigned, and counts no crash', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await store.accept(acceptance([first, second]))
    const [held] = await claimNext(store, 'node-a', 1)
    assert.ok(held)
    await store.release('node-a', [claimOf(held)])
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    const [again] = await claimNext(store, 'node-a', 1)
    assert.deepEqual([again?.id, again?.attempt, again?.crashCount], [held.id, 2, 0])
    // The earlier claim decides nothing, although the same node holds the job again.
    assert.equal(await store.settle(settlement(claimOf(held))), 'stale')
    await store.release('node-a', [claimOf(held)])
    assert.equal((await store.depth()).assigned, 1)
  })

  on('releases only what the node holds under that attempt', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    await store.release('node-b', [{ jobId: job.id, attempt: 1 }])
    await store.release('node-a', [{ jobId: job.id, attempt: 2 }])
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
  })

  on('rescues the jobs of a dead node and counts a crash of each', async (store, _t, place) => {
    const [mine, theirs] = [newJob(), newJob()]
    await store.accept(acceptance([mine], { handedOff: true }))
    await store.accept(acceptance([theirs], { handedOff: true, node: 'node-b' }))
    await store.close()
    const next = await place.open()
    assert.equal(await next.rescue('node-a', now.ms), 1)
    const claimed = await claimSuspects(next, 'node-a')
    assert.deepEqual(
      claimed.map(({ id, attempt, crashCount }) => ({ id, attempt, crashCount })),
      [{ id: theirs.id, attempt: 2, crashCount: 1 }],
    )
    assert.equal(await next.settle(settlement({ jobId: mine.id, attempt: 1 })), 'settled')
    await next.close()
  })

  on('knows how long the queue is, and how old', async (store) => {
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
    const old = newJob()
    await store.accept(acceptance([old]))
    now.ms += 5000
    await store.accept(acceptance([newJob(), newJob()]))
    assert.deepEqual(await store.depth(), { waiting: 3, assigned: 0, oldestCreatedAtMs: old.createdAtMs })
    await claimNext(store, 'node-a', 2)
    const { waiting, assigned, oldestCreatedAtMs } = await store.depth()
    assert.deepEqual([waiting, assigned, oldestCreatedAtMs], [1, 2, now.ms])
  })
}
