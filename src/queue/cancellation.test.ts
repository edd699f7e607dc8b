/** Tests how often a node queries the database for cancelled jobs, because each poll wakes the process and its database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { type Claim, MAX_CANCELLED } from '../store/node-store.ts'
import { Cancellation } from './cancellation.ts'

/** Returns the number of polls in the first two seconds. */
async function pollsIn2s({ running = 0, count = 0 }): Promise<number> {
  const clock = new FakeClock()
  let polls = 0
  const cancellation = new Cancellation({
    store: {
      takeCancelled: async () => {
        polls += 1
        return []
      },
    },
    node: 'node-a',
    clock,
    worker: { running, lose: () => {} },
    pendingResponses: { count, has: () => false },
    remoteResults: { settled: async () => {} },
    onError: (error) => assert.fail(String(error)),
  })
  cancellation.start()
  for (let half = 0; half < 4; half++) {
    clock.advance(500)
    await nextTurn()
  }
  await cancellation.stop()
  return polls
}

test('twice a second while it runs jobs or requests wait for any, else once', async () => {
  assert.equal(await pollsIn2s({ running: 1 }), 4)
  assert.equal(await pollsIn2s({ count: 1 }), 4)
  assert.equal(await pollsIn2s({}), 2)
})

test('all that was cancelled stops, however many jobs, and those who wait are answered', async () => {
  const cancelled = Array.from({ length: 2 * MAX_CANCELLED + 1 }, (_, at) => ({ jobId: `${at}`, attempt: 1 }))
  const left = [...cancelled]
  const [lost, answered]: [Claim[], string[]] = [[], []]
  const cancellation = new Cancellation({
    store: { takeCancelled: async () => left.splice(0, MAX_CANCELLED) },
    node: 'node-a',
    clock: new FakeClock(),
    worker: { running: 1, lose: (claim) => void lost.push(claim) },
    pendingResponses: { count: 2, has: (jobId) => jobId.endsWith('99') },
    remoteResults: { settled: async (jobIds) => void answered.push(...jobIds) },
    onError: (error) => assert.fail(String(error)),
  })
  await cancellation.apply()
  assert.deepEqual(lost, cancelled)
  assert.deepEqual(
    answered,
    cancelled.map(({ jobId }) => jobId).filter((jobId) => jobId.endsWith('99')),
  )
})
