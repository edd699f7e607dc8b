import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { PendingResponses, waitForJobs } from './pending-responses.ts'

const VANISHED = { kind: 'vanished' } as const
const THREE = { account: 'acme', jobIds: ['a', 'b', 'c'], ms: 30_000 } as const

/** Resolves when all due microtasks have run. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('a wait for any ends with the first job, one for all with the last, and neither keeps a slot', async () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 100)
  const any = waitForJobs(pendingResponses, { ...THREE, until: 'any' })
  const all = waitForJobs(pendingResponses, { ...THREE, until: 'all' })
  assert.equal(pendingResponses.count, 6)
  let hasEnded = false
  void all?.ended.then(() => {
    hasEnded = true
  })
  pendingResponses.end('b', VANISHED)
  assert.equal(await any?.ended, 'ended')
  assert.equal(pendingResponses.count, 2)
  pendingResponses.end('a', VANISHED)
  await settled()
  assert.equal(hasEnded, false)
  pendingResponses.end('c', VANISHED)
  assert.equal(await all?.ended, 'ended')
  assert.equal(pendingResponses.count, 0)
})

test('a wait ends when its time is over, whatever ended meanwhile, and leaves no timer', async () => {
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, 100)
  const wait = waitForJobs(pendingResponses, { ...THREE, until: 'all' })
  pendingResponses.end('a', VANISHED)
  clock.advance(30_000)
  assert.equal(await wait?.ended, 'timeout')
  assert.equal(pendingResponses.count, 0)
  assert.deepEqual(clock.pending(), [])
})

test('leaving ends a wait at once and frees its slots', async () => {
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, 100)
  const wait = waitForJobs(pendingResponses, { ...THREE, until: 'any' })
  wait?.leave()
  wait?.leave()
  assert.equal(pendingResponses.count, 0)
  assert.equal(await wait?.ended, 'timeout')
  assert.deepEqual(clock.pending(), [])
})

test('all jobs of a request wait or none: without a slot for each, the slots are free again', () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 2)
  assert.equal(waitForJobs(pendingResponses, { ...THREE, until: 'any' }), null)
  assert.equal(pendingResponses.count, 0)
  assert.notEqual(waitForJobs(pendingResponses, { ...THREE, jobIds: ['a'], until: 'any' }), null)
})

test('a stopping server ends a wait as that', async () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 100)
  const wait = waitForJobs(pendingResponses, { ...THREE, until: 'all' })
  pendingResponses.stop()
  assert.equal(await wait?.ended, 'stopping')
  assert.equal(waitForJobs(pendingResponses, { ...THREE, until: 'all' }), null)
})
