/** Tests what every store guarantees about jobs that nodes hold, that return to the queue, and that outlive the process. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { claimOf, EMPTY, expiry, firstClaim, ids, newJob, now, type On, several, USAGE } from './fixtures.ts'
import {
  accept,
  addAccounts,
  addEnded,
  addHeld,
  addQueued,
  claimNext,
  claimSuspects,
  settle,
} from './steps.ts'

export function holdTests(on: On): void {
  on('returns what a node holds, under which attempt', async (store) => {
    const mine = await addHeld(store)
    await accept(store, [newJob()], { handedOff: true, node: 'node-b' })
    await addQueued(store)
    assert.deepEqual(await store.claimsOf('node-a'), [firstClaim(mine)])
    await settle(store, mine)
    const [claimed] = await claimNext(store, 'node-a', 1)
    assert.ok(claimed)
    assert.deepEqual(await store.claimsOf('node-a'), [claimOf(claimed)])
    await store.leave('node-a')
  })

  on('reads which of many jobs have ended, and how', async (store) => {
    const outcome: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    const done = await addEnded(store, {}, { usage: { ...USAGE, cache_hit: true } })
    const failed = await addEnded(store, {}, { outcome })
    const open = await addHeld(store)
    const ended = await store.readEnded([open.id, done.id, failed.id, newJob().id])
    const of = (id: string) => ended.find((one) => one.id === id)
    assert.equal(ended.length, 2)
    const read = await store.read('acme', done.id, expiry())
    assert.deepEqual({ ...of(done.id), omittedBytes: 0 }, { ...read, cacheHit: true })
    assert.deepEqual([of(failed.id)?.status, of(failed.id)?.cacheHit], ['failed', false])
    assert.deepEqual(await store.readEnded([]), [])
  })

  on(
    'returns which jobs do not exist: unknown and deleted ones, but not those of others, open or ended',
    async (store) => {
      const [open, done, never] = [await addQueued(store), await addEnded(store), newJob()]
      const deleted = await addEnded(store, { account: 'other' })
      await store.deleteJob(deleted.id)
      const missing = await store.findMissing([open.id, deleted.id, done.id, never.id])
      assert.deepEqual(missing.toSorted(), [deleted.id, never.id].toSorted())
      assert.deepEqual(await store.findMissing([open.id]), [])
      assert.deepEqual(await store.findMissing([]), [])
    },
  )

  on('reads no more of the jobs that have ended than so many bytes, or one', async (store) => {
    const outcome: Outcome = { status: 'completed', contentJson: `"${'x'.repeat(50_000)}"` }
    const jobs = await accept(store, several(4), { handedOff: true })
    for (const job of jobs) await settle(store, job, { outcome })
    const all = ids(jobs)
    const read = async (maxBytes?: number) => ids(await store.readEnded(all, maxBytes))
    assert.deepEqual(await read(100_004), all.slice(0, 2))
    assert.deepEqual(await read(100_003), all.slice(0, 1))
    assert.deepEqual(await read(10), all.slice(0, 1))
    assert.deepEqual((await read()).toSorted(), all.toSorted())
  })
}

export function returnTests(on: On): void {
  on('a released job is claimed next, still reads as assigned, and counts no crash', async (store) => {
    await accept(store, several(2))
    const [held] = await claimNext(store, 'node-a', 1)
    assert.ok(held)
    await store.release('node-a', [claimOf(held)])
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    const [again] = await claimNext(store, 'node-a', 1)
    assert.deepEqual([again?.id, again?.attempt, again?.crashCount], [held.id, 2, 0])
    // The earlier claim decides nothing, although the same node holds the job again.
    assert.equal(await settle(store, held), 'stale')
    await store.release('node-a', [claimOf(held)])
    assert.equal((await store.depth()).assigned, 1)
  })

  on('releases only what the node holds under that attempt', async (store) => {
    const job = await addHeld(store)
    await store.release('node-b', [firstClaim(job)])
    await store.release('node-a', [{ jobId: job.id, attempt: 2 }])
    assert.deepEqual(await store.depth(), { ...EMPTY, assigned: 1 })
  })

  on('rescues the jobs of a dead node and counts a crash of each', async (store, t, place) => {
    const mine = await addHeld(store)
    const [theirs] = await accept(store, [newJob()], { handedOff: true, node: 'node-b' })
    await store.close()
    const next = await place.open()
    t.after(() => next.close())
    assert.equal(await next.rescue('node-a', now.ms), 1)
    const claimed = await claimSuspects(next, 'node-a')
    assert.deepEqual(
      claimed.map(({ id, attempt, crashCount }) => [id, attempt, crashCount]),
      [[theirs.id, 2, 1]],
    )
    assert.equal(await settle(next, mine), 'settled')
  })

  on('knows how long the queue is, and how old', async (store) => {
    assert.deepEqual(await store.depth(), EMPTY)
    const old = await addQueued(store)
    now.ms += 5000
    await accept(store, several(2))
    assert.deepEqual(await store.depth(), { waiting: 3, assigned: 0, oldestCreatedAtMs: old.createdAtMs })
    await claimNext(store, 'node-a', 2)
    assert.deepEqual(await store.depth(), { waiting: 1, assigned: 2, oldestCreatedAtMs: now.ms })
  })
}

export function durabilityTests(on: On): void {
  on('what was stored is there when the store is opened again', async (store, t, place) => {
    const cache = { fingerprint: 'd'.repeat(22), untilMs: now.ms + 300_000 }
    const [done, waiting] = [
      await addEnded(store, {}, { cache }),
      await addQueued(store, { account: 'other' }),
    ]
    await store.close()
    const next = await place.open()
    t.after(() => next.close())
    assert.equal((await next.read('acme', done.id, expiry()))?.contentJson, '"Hello back"')
    assert.equal(await next.findResponse(cache.fingerprint, now.ms), '"Hello back"')
    assert.equal((await next.depth()).waiting, 1)
    assert.deepEqual(ids(await claimNext(next, 'node-c', 5)), [waiting.id])
  })

  on('fair order survives the process', async (store, t, place) => {
    await addAccounts(store, 'greedy', 'modest')
    await accept(store, several(20, { account: 'greedy' }))
    await claimNext(store, 'node-a', 10)
    await store.close()
    const next = await place.open()
    t.after(() => next.close())
    await addQueued(next, { account: 'greedy' })
    const single = await addQueued(next, { account: 'modest' })
    assert.ok(ids(await claimNext(next, 'node-b', 2)).includes(single.id))
  })

  on('writes handed over before a close are stored', async (store, t, place) => {
    const accepted = Promise.all(several(50).map((job) => accept(store, [job])))
    await store.close()
    await accepted
    const next = await place.open()
    t.after(() => next.close())
    assert.equal((await next.depth()).waiting, 50)
  })
}
