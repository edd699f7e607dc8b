/** How often a node asks for cancelled jobs: each poll wakes it, and its database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { Cancellation } from './cancellation.ts'

/** Polls in the first two seconds. */
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
