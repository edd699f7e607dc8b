/** Tests what every store guarantees about settle: it happens once, and only the holder can do it. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { WriteRejected } from '../../src/store/store.ts'
import { CALLBACK } from './callback-fixtures.ts'
import { EMPTY, expiry, newJob, now, type On, several, USAGE } from './fixtures.ts'
import { accept, addEnded, addHeld, addQueued, claimNext, settle } from './steps.ts'

export function settleTests(on: On): void {
  on('stores an outcome once', async (store) => {
    const job = await addEnded(store)
    const failed: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    assert.equal(await settle(store, job, { outcome: failed }), 'stale')
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual([read?.status, read?.contentJson, read?.errorJson], ['completed', '"Hello back"', null])
  })

  on('stores a failure as it was reported', async (store) => {
    const why = { message: 'No.', errors: ['a: must be'], raw_text: '\u0000' }
    const error = { code: 'validation_error', ...why } as const
    const job = await addEnded(store, {}, { outcome: { status: 'failed', error } })
    const { status, contentJson, errorJson } = (await store.read('acme', job.id, expiry())) ?? {}
    assert.deepEqual([status, contentJson, JSON.parse(errorJson ?? '')], ['failed', null, error])
  })

  on('stores all that comes of a job', async (store) => {
    const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + 300_000 }
    const { id, createdAtMs } = await addEnded(store, { callback: CALLBACK }, { cache })
    const result = { contentJson: '"Hello back"', errorJson: null, usageJson: JSON.stringify(USAGE) }
    const completed = { id, status: 'completed', createdAtMs, ...result, omittedBytes: 0 }
    assert.deepEqual(await store.read('acme', id, expiry()), completed)
    assert.equal(await store.findResponse(cache.fingerprint, now.ms), '"Hello back"')
    assert.deepEqual(await store.depth(), EMPTY)
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    // The job's callback is pending, so the job does not expire.
    assert.ok(await store.read('acme', id, expiry(now.ms + 1e12, 1)))
  })

  on('rejects another node, another attempt, a queued job, and one that never existed', async (store) => {
    const [held, queued] = [await addHeld(store), await addQueued(store)]
    assert.equal(await settle(store, held, { node: 'node-b' }), 'stale')
    assert.equal(await settle(store, held, { attempt: 2 }), 'stale')
    assert.equal(await settle(store, queued, { attempt: 0 }), 'stale')
    assert.equal(await settle(store, newJob()), 'gone')
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
  })

  on('rejects permanently what does not fit its columns, and stores what came with it', async (store) => {
    const jobs = await accept(store, several(5), { handedOff: true })
    const unfit = { nowMs: now.ms + 0.5 }
    const ended = jobs.map((job, index) => settle(store, job, index % 2 === 0 ? {} : unfit))
    const results = await Promise.allSettled(ended)
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason.constructor)),
      ['settled', WriteRejected, 'settled', WriteRejected, 'settled'],
    )
    assert.deepEqual((await store.depth()).assigned, 2)
    const jobId = jobs[1]?.id ?? ''
    assert.equal(await settle(store, jobId), 'settled')
    assert.equal((await store.read('acme', jobId, expiry()))?.status, 'completed')
  })

  on('lets one of many concurrent settlements through', async (store) => {
    const job = await addHeld(store)
    const ends = Array.from({ length: 10 }, (_, index) =>
      settle(store, job, { outcome: { status: 'completed', contentJson: `${index}` } }),
    )
    assert.equal((await Promise.all(ends)).filter((result) => result === 'settled').length, 1)
  })
}
