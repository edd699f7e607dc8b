import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { JobRecord } from '../job/job-record.ts'
import { PendingResponses, type WaitEnd } from './pending-responses.ts'

const settled = (id: string, cacheHit = false): WaitEnd => ({ kind: 'settled', record: record(id), cacheHit })

const record = (id: string): JobRecord => ({
  id,
  status: 'completed',
  createdAtMs: 0,
  contentJson: '1',
  errorJson: null,
  usageJson: null,
})

test('every wait for a job ends when it is settled, and no other does', async () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 10)
  const [first, second, other] = [
    pendingResponses.add('a', 'acme', 30_000),
    pendingResponses.add('a', 'acme', 90_000),
    pendingResponses.add('b', 'acme', 30_000),
  ]
  assert.equal(pendingResponses.count, 3)
  pendingResponses.end('a', settled('a', true))
  const end = settled('a', true)
  assert.deepEqual(await Promise.all([first?.ended, second?.ended]), [end, end])
  assert.equal(pendingResponses.count, 1)
  pendingResponses.end('b', { kind: 'vanished' })
  assert.deepEqual(await other?.ended, { kind: 'vanished' })
  assert.equal(pendingResponses.count, 0)
})

test('a wait ends when its time has passed, whichever of several it is', async () => {
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, 10)
  const waits = [50_000, 30_000, 70_000].map((ms) => pendingResponses.add('a', 'acme', ms))
  clock.advance(30_000)
  assert.deepEqual(await waits[1]?.ended, { kind: 'timeout' })
  assert.equal(pendingResponses.count, 2)
  clock.advance(20_000)
  assert.deepEqual(await waits[0]?.ended, { kind: 'timeout' })
  pendingResponses.end('a', settled('a'))
  assert.equal((await waits[2]?.ended)?.kind, 'settled')
  assert.equal(pendingResponses.count, 0)
  assert.deepEqual(clock.pending(), [])
})

test('leaving twice, or after the end, counts once', async () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 10)
  const [one, two] = [pendingResponses.add('a', 'acme', 30_000), pendingResponses.add('a', 'acme', 30_000)]
  one?.leave()
  one?.leave()
  assert.equal(pendingResponses.count, 1)
  pendingResponses.end('a', settled('a'))
  two?.leave()
  assert.equal(pendingResponses.count, 0)
  assert.equal((await two?.ended)?.kind, 'settled')
})

test('there are no more waits than allowed, and none when stopping', async () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 1)
  const one = pendingResponses.add('a', 'acme', 30_000)
  assert.equal(pendingResponses.add('b', 'acme', 30_000), null)
  one?.leave()
  const again = pendingResponses.add('b', 'acme', 30_000)
  pendingResponses.stop()
  assert.deepEqual(await again?.ended, { kind: 'stopping' })
  assert.equal(pendingResponses.add('c', 'acme', 30_000), null)
})

test('one account leaves a reserve, of which any other has its part', () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 512)
  const added = (account: string) => {
    let count = 0
    while (pendingResponses.add(`${account} ${count}`, account, 30_000) !== null) count += 1
    return count
  }
  assert.equal(added('crowd'), 480)
  assert.deepEqual([added('second'), added('third'), added('crowd')], [2, 2, 0])
  pendingResponses.end('crowd 0', { kind: 'vanished' })
  assert.equal(pendingResponses.count, 483)
})

test('what an account may have comes back when its waits end', () => {
  const pendingResponses = new PendingResponses(new FakeClock(), 4)
  const [one, two] = ['a', 'b', 'c'].map((jobId) => pendingResponses.add(jobId, 'acme', 30_000))
  assert.equal(pendingResponses.add('d', 'acme', 30_000), null)
  pendingResponses.end('a', { kind: 'vanished' })
  two?.leave()
  one?.leave()
  assert.ok(pendingResponses.add('d', 'acme', 30_000) && pendingResponses.add('d', 'acme', 30_000))
  assert.equal(pendingResponses.add('d', 'acme', 30_000), null)
})
