/** What every store guarantees about the jobs that a node holds, and about jobs that other nodes have ended. */
import assert from 'node:assert/strict'
import { acceptance, claimNext, claimOf, expiry, ids, newJob, type On, settlement } from './fixtures.ts'

export function holdTests(on: On): void {
  on('returns what a node holds, under which attempt', async (store) => {
    const [mine, theirs, waiting] = [newJob(), newJob(), newJob()]
    await store.accept(acceptance([mine], { handedOff: true }))
    await store.accept(acceptance([theirs], { handedOff: true, node: 'node-b' }))
    await store.accept(acceptance([waiting]))
    assert.deepEqual(await store.claimsOf('node-a'), [{ jobId: mine.id, attempt: 1 }])
    await store.settle(settlement({ jobId: mine.id, attempt: 1 }))
    const [claimed] = await claimNext(store, 'node-a', 1)
    assert.ok(claimed)
    assert.deepEqual(await store.claimsOf('node-a'), [claimOf(claimed)])
    await store.leave('node-a')
  })

  on('reads which of many jobs have ended, and how', async (store) => {
    const [done, failed, open] = [newJob(), newJob(), newJob()]
    await store.accept(acceptance([done, failed, open], { handedOff: true }))
    const hit = { ...settlement({ jobId: '', attempt: 1 }).usage, cache_hit: true }
    await store.settle(settlement({ jobId: done.id, attempt: 1 }, { usage: hit }))
    await store.settle(
      settlement(
        { jobId: failed.id, attempt: 1 },
        { outcome: { status: 'failed', error: { code: 'model_error', message: 'No.' } } },
      ),
    )
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
      const [open, done, deleted, never] = [newJob(), newJob(), newJob({ account: 'other' }), newJob()]
      await store.accept(acceptance([open]))
      await store.accept(acceptance([done, deleted], { handedOff: true }))
      for (const { id } of [done, deleted]) await store.settle(settlement({ jobId: id, attempt: 1 }))
      await store.deleteJob(deleted.id)
      const missing = await store.findMissing([open.id, deleted.id, done.id, never.id])
      assert.deepEqual(missing.toSorted(), [deleted.id, never.id].toSorted())
      assert.deepEqual(await store.findMissing([open.id]), [])
      assert.deepEqual(await store.findMissing([]), [])
    },
  )

  on('reads no more of the jobs that have ended than so many bytes, or one', async (store) => {
    const jobs = [newJob(), newJob(), newJob(), newJob()]
    await store.accept(acceptance(jobs, { handedOff: true }))
    for (const { id } of jobs) {
      const outcome = { status: 'completed', contentJson: `"${'x'.repeat(50_000)}"` } as const
      await store.settle(settlement({ jobId: id, attempt: 1 }, { outcome }))
    }
    const all = ids(jobs)
    const read = async (maxBytes?: number) => (await store.readEnded(all, maxBytes)).map(({ id }) => id)
    assert.deepEqual(await read(100_004), all.slice(0, 2))
    assert.deepEqual(await read(100_003), all.slice(0, 1))
    assert.deepEqual(await read(10), all.slice(0, 1))
    assert.deepEqual((await read()).toSorted(), all.toSorted())
  })
}
