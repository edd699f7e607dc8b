import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { EndedJob } from '../store/store.ts'
import { PendingResponses, waitForJobs } from './pending-responses.ts'
import { RemoteResults } from './remote-results.ts'

const RESULT = `"${'x'.repeat(600_000)}"`

/**
 * Returns a store in which the jobs in `ended` have finished with `RESULT` and those in `missing` do not exist. `readEnded`
 * limits its bytes as its contract requires. `loaded` lists how many results each read returned.
 */
function storeWith(ended: ReadonlySet<string>, missing: readonly string[] = []) {
  const loaded: number[] = []
  const findMissing = async (jobIds: readonly string[]) => jobIds.filter((id) => missing.includes(id))
  const readEnded = async (jobIds: readonly string[], maxBytes = Number.POSITIVE_INFINITY) => {
    const some = jobIds
      .filter((id) => ended.has(id))
      .slice(0, Math.max(1, Math.floor(maxBytes / RESULT.length)))
    loaded.push(some.length)
    return some.map(
      (id): EndedJob => ({
        id,
        status: 'completed',
        createdAtMs: 0,
        contentJson: RESULT,
        errorJson: null,
        usageJson: null,
        cacheHit: false,
      }),
    )
  }
  return { loaded, store: { readEnded, findMissing, shared: true } }
}

test('results are loaded a megabyte at a time, however many have ended at once', async () => {
  const jobIds = Array.from({ length: 1005 }, (_, index) => `job ${index}`)
  const ended = new Set(jobIds.slice(990))
  const { store, loaded } = storeWith(ended)
  const found: string[] = []
  const results = new RemoteResults({
    store,
    clock: new FakeClock(),
    awaited: () => jobIds,
    awaitsExisting: () => false,
    onEnded: ({ id }) => found.push(id),
    onVanished: assert.fail,
    onError: assert.ifError,
  })
  await results.settled(jobIds)
  assert.deepEqual(found, [...ended])
  assert.equal(Math.max(...loaded), 1)
})

test('a job that was deleted before its result was read ends the waits that began when it existed, and no others', async () => {
  const { store } = storeWith(new Set(['ended']), ['deleted', 'not stored yet'])
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, 10)
  const waitFor = (jobIds: string[]) =>
    waitForJobs(pendingResponses, { account: 'acme', jobIds, ms: 60_000, until: 'all' })
  const read = waitFor(['deleted', 'ended'])
  waitFor(['open'])
  // These waits began before their job was known to exist, so a missing job must not end them.
  const created = pendingResponses.add('not stored yet', 'acme', 60_000)
  const repeated = pendingResponses.add('deleted', 'acme', 60_000)
  const results = new RemoteResults({
    store,
    clock,
    awaited: () => pendingResponses.jobIds(),
    awaitsExisting: (jobId) => pendingResponses.awaitsExisting(jobId),
    onEnded: ({ cacheHit, ...record }) =>
      pendingResponses.end(record.id, { kind: 'settled', record, cacheHit }),
    onVanished: (jobId) => pendingResponses.vanished(jobId),
    onError: assert.ifError,
  })
  await results.settled(pendingResponses.jobIds())
  assert.deepEqual([created?.hasEnded, repeated?.hasEnded], [false, false])
  assert.deepEqual(pendingResponses.jobIds().toSorted(), ['deleted', 'not stored yet', 'open'])
  assert.equal(pendingResponses.count, 3)
  assert.equal(await read?.ended, 'ended')
  assert.equal(clock.pending().length, 3)
})
