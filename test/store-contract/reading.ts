/** What every store guarantees about read and findResponse. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { acceptance, expiry, newJob, now, type On, settlement } from './fixtures.ts'

export function readTests(on: On): void {
  on('shows a job to its account only', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job]))
    assert.equal(await store.read('other', job.id, expiry()), null)
    assert.equal(await store.read('acme', newJob().id, expiry()), null)
    assert.equal(await store.read('acme', 'no id at all', expiry()), null)
  })

  on('loads a result only up to the requested size, and returns the size of a larger one', async (store) => {
    const [done, failed] = [newJob(), newJob()]
    await store.accept(acceptance([done, failed], { handedOff: true }))
    const contentJson = JSON.stringify('€'.repeat(100_000))
    const error = { code: 'model_error', message: 'x'.repeat(1000) } as const
    const settle = (jobId: string, outcome: Outcome) =>
      store.settle(settlement({ jobId, attempt: 1 }, { outcome }))
    await settle(done.id, { status: 'completed', contentJson })
    await settle(failed.id, { status: 'failed', error })
    const read = async (jobId: string, maxBytes?: number) => {
      const job = await store.read('acme', jobId, expiry(), maxBytes)
      return [job?.status, job?.contentJson ?? job?.errorJson, job?.omittedBytes]
    }
    assert.deepEqual(await read(done.id, 300_001), ['completed', null, 300_002])
    assert.deepEqual(await read(done.id, 300_002), ['completed', contentJson, 0])
    assert.deepEqual(await read(done.id), ['completed', contentJson, 0])
    const errorJson = JSON.stringify(error)
    assert.deepEqual(await read(failed.id, errorJson.length - 1), ['failed', null, errorJson.length])
    assert.deepEqual(await read(failed.id, errorJson.length), ['failed', errorJson, 0])
    const open = newJob()
    await store.accept(acceptance([open]))
    assert.deepEqual(await read(open.id, 1), ['pending', null, 0])
  })

  on('finds a cached response until it expires, the latest one first', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await store.accept(acceptance([first, second], { handedOff: true }))
    const keep = (untilMs: number) => ({ fingerprint: 'f'.repeat(22), untilMs })
    await store.settle(settlement({ jobId: first.id, attempt: 1 }, { cache: keep(now.ms + 300_500) }))
    assert.equal(await store.findResponse('f'.repeat(22), now.ms), '"Hello back"')
    assert.equal(await store.findResponse('g'.repeat(22), now.ms), null)
    assert.equal(await store.findResponse('f'.repeat(22), now.ms + 300_499), '"Hello back"')
    assert.equal(await store.findResponse('f'.repeat(22), now.ms + 300_500), null)
    const outcome: Outcome = { status: 'completed', contentJson: '"later"' }
    await store.settle(
      settlement({ jobId: second.id, attempt: 1 }, { outcome, cache: keep(now.ms + 400_000) }),
    )
    assert.equal(await store.findResponse('f'.repeat(22), now.ms), '"later"')
  })

  on('does not cache the response of a stale settlement', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const keep = { fingerprint: 's'.repeat(22), untilMs: now.ms + 300_000 }
    await store.settle(settlement({ jobId: job.id, attempt: 7 }, { cache: keep }))
    assert.equal(await store.findResponse(keep.fingerprint, now.ms), null)
  })
}
