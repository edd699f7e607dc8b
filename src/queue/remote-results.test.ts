import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { EndedJob } from '../store/store.ts'
import { RemoteResults } from './remote-results.ts'

const RESULT = `"${'x'.repeat(600_000)}"`

/** A store in which jobs have ended with `RESULT`; reads as its contract says, and remembers what it loaded at once. */
function storeWith(ended: ReadonlySet<string>) {
  const loaded: number[] = []
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
        cacheHit: false,
      }),
    )
  }
  return { loaded, store: { readEnded, shared: true } }
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
    onEnded: ({ id }) => found.push(id),
    onError: assert.ifError,
  })
  await results.settled(jobIds)
  assert.deepEqual(found, [...ended])
  assert.equal(Math.max(...loaded), 1)
})
