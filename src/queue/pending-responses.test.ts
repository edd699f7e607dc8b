import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { JobRecord } from '../job/job-record.ts'
import { PendingResponses } from './pending-responses.ts'

const view = (id: string): JobRecord => ({
  id,
  status: 'completed',
  createdAtMs: 0,
  contentJson: '1',
  errorJson: null,
})

test('every wait for a job ends when it is settled, and no other does', async () => {
  const waiters = new PendingResponses(new FakeClock(), 10)
  const [first, second, other] = [
    waiters.wait('a', 30_000),
    waiters.wait('a', 90_000),
    waiters.wait('b', 30_000),
  ]
  assert.equal(waiters.count, 3)
  waiters.settled(view('a'), true)
  const end = { kind: 'settled', view: view('a'), cacheHit: true }
  assert.deepEqual(await Promise.all([first?.end, second?.end]), [end, end])
  assert.equal(waiters.count, 1)
  waiters.vanished('b')
  assert.deepEqual(await other?.end, { kind: 'vanished' })
  assert.equal(waiters.count, 0)
})

test('a wait ends when its time has passed, whichever of several it is', async () => {
  const clock = new FakeClock()
  const waiters = new PendingResponses(clock, 10)
  const waits = [50_000, 30_000, 70_000].map((ms) => waiters.wait('a', ms))
  clock.advance(30_000)
  assert.deepEqual(await waits[1]?.end, { kind: 'timeout' })
  assert.equal(waiters.count, 2)
  clock.advance(20_000)
  assert.deepEqual(await waits[0]?.end, { kind: 'timeout' })
  waiters.settled(view('a'), false)
  assert.equal((await waits[2]?.end)?.kind, 'settled')
  assert.equal(waiters.count, 0)
  assert.deepEqual(clock.pending(), [])
})

test('leaving twice, or after the end, counts once', async () => {
  const waiters = new PendingResponses(new FakeClock(), 10)
  const [one, two] = [waiters.wait('a', 30_000), waiters.wait('a', 30_000)]
  one?.leave()
  one?.leave()
  assert.equal(waiters.count, 1)
  waiters.settled(view('a'), false)
  two?.leave()
  assert.equal(waiters.count, 0)
  assert.equal((await two?.end)?.kind, 'settled')
})

test('there are no more waits than allowed, and none when stopping', async () => {
  const waiters = new PendingResponses(new FakeClock(), 1)
  const one = waiters.wait('a', 30_000)
  assert.equal(waiters.wait('b', 30_000), null)
  one?.leave()
  const again = waiters.wait('b', 30_000)
  waiters.stop()
  assert.deepEqual(await again?.end, { kind: 'stopping' })
  assert.equal(waiters.wait('c', 30_000), null)
})
