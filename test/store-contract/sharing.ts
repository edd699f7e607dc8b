/** Tests what a store that many nodes share guarantees about leases. They follow the database's clock. */
import assert from 'node:assert/strict'
import { owed, take } from './callback-fixtures.ts'
import { claimOf, DAY_MS, firstClaim, ids, newJob, now, type On, settlement, several } from './fixtures.ts'
import { accept, claimNext, claimSuspects, settle } from './steps.ts'

const LONG_MS = 60_000
/** A lease of this length expires at once, so that the test need not wait. */
const ENDED_MS = -1
const ON_B = { handedOff: true, node: 'node-b' }

export function shareTests(on: On): void {
  on('the books of a rate are replaced only by who has read the latest version', async (store) => {
    const write = (stateJson: string, version: number) => store.writeRate('a/m', { stateJson, version })
    assert.equal(await store.readRate('a/m'), null)
    const [first, second] = await Promise.all([write('1', 0), write('2', 0)])
    assert.notEqual(first, second)
    assert.deepEqual(await store.readRate('a/m'), { stateJson: first ? '1' : '2', version: 1 })
    assert.equal(await write('3', 0), false)
    assert.equal(await write('4', 1), true)
    assert.equal(await write('5', 1), false)
    assert.deepEqual(await store.readRate('a/m'), { stateJson: '4', version: 2 })
    assert.equal(await store.readRate('a'), null)
  })

  on('a node with a lease keeps its jobs; without one it is dead', async (store) => {
    await store.renew('node-b', LONG_MS)
    const [live] = await accept(store, [newJob()], ON_B)
    const [dead] = await accept(store, [newJob()], { handedOff: true, node: 'node-c' })
    assert.equal(await store.rescue('node-a', now.ms), 1)
    assert.deepEqual(ids(await claimSuspects(store, 'node-a')), [dead.id])
    assert.equal(await settle(store, live, { node: 'node-b' }), 'settled')
  })

  on(
    'a node that lost its lease writes nothing about its jobs, and learns it at its next renewal',
    async (store) => {
      await store.renew('node-b', ENDED_MS)
      const [job] = await accept(store, [newJob()], ON_B)
      assert.equal(await store.rescue('node-a', now.ms), 1)
      assert.equal(await settle(store, job, { node: 'node-b' }), 'stale')
      await store.release('node-b', [firstClaim(job)])
      const [claimed] = await claimSuspects(store, 'node-a')
      assert.ok(claimed)
      assert.deepEqual([claimed.attempt, claimed.crashCount], [2, 1])
      assert.equal(await settle(store, job, { node: 'node-b' }), 'stale')
      assert.equal(await store.renew('node-b', LONG_MS), false)
      assert.deepEqual(await store.claimsOf('node-b'), [])
      assert.equal(await store.renew('node-b', LONG_MS), true)
      assert.equal(await store.settle(settlement(claimOf(claimed))), 'settled')
    },
  )

  on('a lease that expired and was renewed before another node noticed is kept', async (store) => {
    await store.renew('node-b', ENDED_MS)
    const [job] = await accept(store, [newJob()], ON_B)
    assert.equal(await store.renew('node-b', LONG_MS), true)
    assert.deepEqual(await store.claimsOf('node-b'), [firstClaim(job)])
    assert.equal(await store.rescue('node-a', now.ms), 0)
  })

  on('many nodes that rescue at the same time rescue each job once', async (store) => {
    const jobs = await accept(store, several(200), { handedOff: true, node: 'dead' })
    const rescues = Array.from({ length: 8 }, (_, index) => store.rescue(`node-${index}`, now.ms))
    const sum = (await Promise.all(rescues)).reduce((all, count) => all + count)
    assert.equal(sum, jobs.length)
    const suspects = await claimSuspects(store, 'node-a')
    assert.deepEqual(new Set(suspects.map(({ crashCount }) => crashCount)), new Set([1]))
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
      const [job] = await accept(store, [newJob()], { awaited: true })
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
    await accept(store, [newJob()], ON_B)
    assert.equal(await store.rescue('node-a', now.ms), 1)
  })
}
