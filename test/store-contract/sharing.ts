/** What a store that many nodes share guarantees about leases. They follow the database's clock. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { owed, take } from './callback-fixtures.ts'
import {
  acceptance,
  claimNext,
  claimOf,
  claimSuspects,
  DAY_MS,
  ids,
  newJob,
  now,
  type On,
  settlement,
} from './fixtures.ts'

const LONG_MS = 60_000
/** Expires at once, so that the test need not wait. */
const ENDED_MS = -1

export function shareTests(on: On): void {
  on('the books of a rate are replaced only by who has read the latest version', async (store) => {
    if (!store.shared) return
    assert.equal(await store.readRate('a/m'), null)
    const [first, second] = await Promise.all(
      ['1', '2'].map((stateJson) => store.writeRate('a/m', { stateJson, version: 0 })),
    )
    assert.notEqual(first, second)
    assert.deepEqual(await store.readRate('a/m'), { stateJson: first ? '1' : '2', version: 1 })
    assert.equal(await store.writeRate('a/m', { stateJson: '3', version: 0 }), false)
    assert.equal(await store.writeRate('a/m', { stateJson: '4', version: 1 }), true)
    assert.equal(await store.writeRate('a/m', { stateJson: '5', version: 1 }), false)
    assert.deepEqual(await store.readRate('a/m'), { stateJson: '4', version: 2 })
    assert.equal(await store.readRate('a'), null)
  })

  on('a node with a lease keeps its jobs; without one it is dead', async (store) => {
    const [live, dead] = [newJob(), newJob()]
    await store.renew('node-b', LONG_MS)
    await store.accept(acceptance([live], { handedOff: true, node: 'node-b' }))
    await store.accept(acceptance([dead], { handedOff: true, node: 'node-c' }))
    assert.equal(await store.rescue('node-a', now.ms), 1)
    assert.deepEqual(ids(await claimSuspects(store, 'node-a')), [dead.id])
    assert.equal(
      await store.settle(settlement({ jobId: live.id, attempt: 1 }, { node: 'node-b' })),
      'settled',
    )
  })

  on(
    'a node that lost its lease writes nothing about its jobs, and learns it at its next renewal',
    async (store) => {
      const job = newJob()
      await store.renew('node-b', ENDED_MS)
      await store.accept(acceptance([job], { handedOff: true, node: 'node-b' }))
      assert.equal(await store.rescue('node-a', now.ms), 1)
      const stale = { jobId: job.id, attempt: 1 }
      assert.equal(await store.settle(settlement(stale, { node: 'node-b' })), 'stale')
      await store.release('node-b', [stale])
      const [claimed] = await claimSuspects(store, 'node-a')
      assert.ok(claimed)
      assert.deepEqual([claimed.attempt, claimed.crashCount], [2, 1])
      assert.equal(await store.settle(settlement(stale, { node: 'node-b' })), 'stale')
      assert.equal(await store.renew('node-b', LONG_MS), false)
      assert.deepEqual(await store.claimsOf('node-b'), [])
      assert.equal(await store.renew('node-b', LONG_MS), true)
      assert.equal(await store.settle(settlement(claimOf(claimed))), 'settled')
    },
  )

  on('a lease that expired and was renewed before another node noticed is kept', async (store) => {
    const job = newJob()
    await store.renew('node-b', ENDED_MS)
    await store.accept(acceptance([job], { handedOff: true, node: 'node-b' }))
    assert.equal(await store.renew('node-b', LONG_MS), true)
    assert.deepEqual(await store.claimsOf('node-b'), [{ jobId: job.id, attempt: 1 }])
    assert.equal(await store.rescue('node-a', now.ms), 0)
  })

  on('many nodes that rescue at the same time rescue each job once', async (store) => {
    const jobs = Array.from({ length: 200 }, () => newJob())
    await store.accept(acceptance(jobs, { handedOff: true, node: 'dead' }))
    const counts = await Promise.all(
      Array.from({ length: 8 }, (_, index) => store.rescue(`node-${index}`, now.ms)),
    )
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      jobs.length,
    )
    assert.deepEqual(await crashCountsOf(store), new Set([1]))
  })

  on('no other node takes a callback of a living node, whatever the clocks say', async (store) => {
    await owed(store)
    await store.renew('node-b', 60_000)
    await take(store, { node: 'node-b' })
    await store.rescue('node-a', now.ms)
    assert.deepEqual(await take(store, { nowMs: now.ms + DAY_MS }), [])
    await store.leave('node-b')
    await store.rescue('node-a', now.ms)
    assert.equal((await take(store)).length, 1)
  })

  on(
    'the cancellation of a job is reported to its node and to the one with the pending response',
    async (store) => {
      const job = newJob()
      await store.accept(acceptance([job], { awaited: true }))
      const [claimed] = await claimNext(store, 'node-b', 1)
      assert.ok(claimed)
      assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
      for (const node of ['node-a', 'node-b']) {
        assert.deepEqual(await store.takeCancelled(node), [claimOf(claimed)])
        assert.deepEqual(await store.takeCancelled(node), [])
      }
    },
  )

  on('a node that leaves delays nothing', async (store) => {
    await store.renew('node-b', LONG_MS)
    await store.leave('node-b')
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true, node: 'node-b' }))
    assert.equal(await store.rescue('node-a', now.ms), 1)
  })
}

async function crashCountsOf(store: Store): Promise<Set<number>> {
  return new Set((await claimSuspects(store, 'node-a')).map(({ crashCount }) => crashCount))
}
