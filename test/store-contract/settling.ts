/** What every store guarantees about settle: once, and only by the holder. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { WriteRejected } from '../../src/store/store.ts'
import {
  acceptance,
  claimNext,
  expiry,
  newJob,
  now,
  type On,
  settlement,
  storeEnded,
  USAGE,
} from './fixtures.ts'

export function settleTests(on: On): void {
  on('stores an outcome once', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const claim = { jobId: job.id, attempt: 1 }
    assert.equal(await store.settle(settlement(claim)), 'settled')
    const failed: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    assert.equal(await store.settle(settlement(claim, { outcome: failed })), 'stale')
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual([read?.status, read?.contentJson, read?.errorJson], ['completed', '"Hello back"', null])
  })

  on('stores a failure as it was reported', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const error = {
      code: 'validation_error',
      message: 'No.',
      errors: ['a: must be'],
      raw_text: '\u0000',
    } as const
    const outcome: Outcome = { status: 'failed', error }
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { outcome }))
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual(
      [read?.status, read?.contentJson, JSON.parse(read?.errorJson ?? '')],
      ['failed', null, error],
    )
  })

  on('stores all that comes of a job', async (store) => {
    const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const job = newJob({ callback })
    const keep = { fingerprint: 'e'.repeat(22), untilMs: now.ms + 300_000 }
    await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }, { cache: keep }))
    assert.deepEqual(await store.read('acme', job.id, expiry()), {
      id: job.id,
      status: 'completed',
      createdAtMs: job.createdAtMs,
      contentJson: '"Hello back"',
      errorJson: null,
      usageJson: JSON.stringify(USAGE),
      omittedBytes: 0,
    })
    assert.equal(await store.findResponse(keep.fingerprint, now.ms), '"Hello back"')
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
    assert.equal(await store.settle(settlement({ jobId: job.id, attempt: 1 })), 'stale')
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    // Its callback is owed, so it does not expire.
    assert.ok(await store.read('acme', job.id, expiry(now.ms + 1e12, 1)))
  })

  on('rejects another node, another attempt, a queued job, and one that never existed', async (store) => {
    const [held, waiting] = [newJob(), newJob()]
    await store.accept(acceptance([held], { handedOff: true }))
    await store.accept(acceptance([waiting]))
    const claim = { jobId: held.id, attempt: 1 }
    assert.equal(await store.settle(settlement(claim, { node: 'node-b' })), 'stale')
    assert.equal(await store.settle(settlement({ ...claim, attempt: 2 })), 'stale')
    assert.equal(await store.settle(settlement({ jobId: waiting.id, attempt: 0 })), 'stale')
    assert.equal(await store.settle(settlement({ jobId: newJob().id, attempt: 1 })), 'gone')
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
  })

  on('rejects permanently what does not fit its columns, and stores what came with it', async (store) => {
    const jobs = Array.from({ length: 5 }, () => newJob())
    await store.accept(acceptance(jobs, { handedOff: true }))
    const unfit = { nowMs: now.ms + 0.5 }
    const ended = jobs.map(({ id }, index) =>
      store.settle(settlement({ jobId: id, attempt: 1 }, index % 2 === 0 ? {} : unfit)),
    )
    const results = await Promise.allSettled(ended)
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason.constructor)),
      ['settled', WriteRejected, 'settled', WriteRejected, 'settled'],
    )
    assert.deepEqual((await store.depth()).assigned, 2)
    const claim = { jobId: jobs[1]?.id ?? '', attempt: 1 }
    assert.equal(await store.settle(settlement(claim)), 'settled')
    assert.equal((await store.read('acme', claim.jobId, expiry()))?.status, 'completed')
  })

  on('lets one of many concurrent settlements through', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        store.settle(
          settlement(
            { jobId: job.id, attempt: 1 },
            { outcome: { status: 'completed', contentJson: `${index}` } },
          ),
        ),
      ),
    )
    assert.equal(results.filter((result) => result === 'settled').length, 1)
  })
}
