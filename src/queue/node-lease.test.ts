/** The heartbeat on a real Postgres, its time moved by hand. Leases end by the database's clock, so dead ones are made so. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { freshDatabase } from '../../test/postgres/database.ts'
import { acceptance, ids, newJob, now } from '../../test/store-contract/fixtures.ts'
import { openNode } from '../../test/support/postgres-nodes.ts'
import type { Claim } from '../store/node-store.ts'
import { NodeLease } from './node-lease.ts'

const LEASE_MS = 30_000
const HOUR_MS = 3_600_000
const ENDED_MS = -1

/** What a worker has in hand, as the test says. */
class Hands {
  held: Claim[] = []
  readonly lost: Claim[] = []
  woken = 0
  stored = () => this.held
  has = ({ jobId, attempt }: Claim) =>
    this.held.some((claim) => claim.jobId === jobId && claim.attempt === attempt)
  lose = (claim: Claim) => void this.lost.push(claim)
  wake = () => {
    this.woken += 1
  }
}

/** @param isDown whether the database is out of reach of renewals */
async function start(t: TestContext, isDown = () => false) {
  const { store } = await openNode(await freshDatabase(t))
  const clock = new FakeClock()
  const holder = new Hands()
  const told: string[] = []
  const heartbeat = new NodeLease({
    store: {
      shared: true,
      renew: async (...args) => {
        if (isDown()) throw new Error('out of reach')
        return store.renew(...args)
      },
      leave: (...args) => store.leave(...args),
      rescue: (...args) => store.rescue(...args),
      release: (...args) => store.release(...args),
    },
    holder,
    node: 'node-a',
    clock,
    leaseMs: LEASE_MS,
    events: {
      reclaimed: (jobs) => told.push(`reclaimed ${jobs}`),
      lost: (jobs) => told.push(`lost ${jobs}`),
      gone: (jobs) => told.push(`gone ${jobs}`),
      trouble: (message) => told.push(message),
    },
  })
  await heartbeat.begin()
  t.after(async () => {
    await heartbeat.stop()
    await store.close()
  })
  /** So much time passes, beat by beat, each of which ends before the next. */
  const pass = async (ms: number) => {
    const end = clock.steadyMs() + ms
    while (clock.steadyMs() < end) {
      const next = await clock.timerSet()
      clock.advance(Math.min(next, end - clock.steadyMs()))
    }
    await clock.timerSet()
  }
  return { store, clock, holder, told, heartbeat, pass }
}

/** A job held by a node whose lease has ended. */
async function deadJob(store: Awaited<ReturnType<typeof start>>['store']) {
  const job = newJob()
  await store.renew('node-b', ENDED_MS)
  await store.accept(acceptance([job], { handedOff: true, node: 'node-b' }))
  return job
}

test('jobs of a dead node are taken back, once this node has been in touch for as long as a lease', async (t) => {
  const { store, holder, told, pass } = await start(t)
  const job = await deadJob(store)
  // Whoever lives has not had the time to renew: all may have been without the database.
  await pass(LEASE_MS * 0.9)
  assert.deepEqual(told, [])
  await pass(LEASE_MS * 0.3)
  assert.deepEqual(told, ['reclaimed 1'])
  assert.equal(holder.woken, 1)
  assert.deepEqual(ids(await store.claim('node-a', 5, now.ms)), [job.id])
})

test('after the database was out of reach, nobody is called dead before a lease has passed again', async (t) => {
  let down = false
  const { store, told, pass } = await start(t, () => down)
  await pass(LEASE_MS * 2)
  down = true
  await pass(LEASE_MS * 2)
  down = false
  await deadJob(store)
  told.length = 0
  await pass(LEASE_MS * 0.9)
  assert.deepEqual(told, [])
  await pass(LEASE_MS * 0.3)
  assert.deepEqual(told, ['reclaimed 1'])
})

test('a clock that jumps by an hour either way changes nothing', async (t) => {
  const { store, clock, told, pass } = await start(t)
  await pass(LEASE_MS * 1.5)
  await store.renew('node-b', LEASE_MS)
  const job = newJob()
  await store.accept(acceptance([job], { handedOff: true, node: 'node-b' }))
  for (const jump of [HOUR_MS, -2 * HOUR_MS, HOUR_MS]) {
    clock.jump(jump)
    await pass(LEASE_MS / 3)
  }
  assert.deepEqual(told, [])
  assert.equal((await store.renew('node-a', LEASE_MS)).kept, true)
})

test('a job that the database has no more as ours is let go, and the lease is not called lost', async (t) => {
  const { store, holder, told, pass } = await start(t)
  const job = newJob()
  const claim = { jobId: job.id, attempt: 1 }
  await store.accept(acceptance([job], { handedOff: true }))
  await store.release('node-a', [claim])
  // As between the end of a job and this node's hearing that it is stored.
  holder.held = [claim]
  await pass(LEASE_MS / 2)
  assert.deepEqual([holder.lost, told], [[claim], ['gone 1']])
})

test('a job that others took is ended here', async (t) => {
  const { store, holder, told, pass } = await start(t)
  const job = newJob()
  const claim = { jobId: job.id, attempt: 1 }
  await store.accept(acceptance([job], { handedOff: true }))
  holder.held = [claim]
  await pass(LEASE_MS / 2)
  assert.deepEqual(holder.lost, [])
  await store.renew('node-a', ENDED_MS)
  assert.equal(await store.rescue('node-b', now.ms), 1)
  await pass(LEASE_MS / 2)
  assert.deepEqual([holder.lost, told], [[claim], ['lost 1']])

  // Also where its run has ended by then: that the lease had ended is worth knowing.
  holder.held = []
  await store.renew('node-a', ENDED_MS)
  await store.rescue('node-b', now.ms)
  await pass(LEASE_MS / 2)
  assert.deepEqual(told, ['lost 1', 'lost 0'])
})

test('a job that the database thinks is here goes back to the line, at the second look', async (t) => {
  const { store, holder, pass } = await start(t)
  const job = newJob()
  await store.accept(acceptance([job], { handedOff: true }))
  await pass(LEASE_MS * 0.4)
  assert.deepEqual(await store.claim('node-b', 5, now.ms), [])
  await pass(LEASE_MS * 0.4)
  const [claimed] = await store.claim('node-b', 5, now.ms)
  assert.deepEqual([claimed?.id, claimed?.attempt, claimed?.crashCount], [job.id, 2, 0])
  assert.equal(holder.woken, 1)
})

test('the lease ends with the node, unless something is still in hand', async (t) => {
  const { store, holder, heartbeat } = await start(t)
  holder.held = [{ jobId: newJob().id, attempt: 1 }]
  await heartbeat.stop()
  assert.equal((await store.renew('node-a', LEASE_MS)).kept, true)
  holder.held = []
  await heartbeat.stop()
  assert.equal((await store.renew('node-a', LEASE_MS)).kept, false)
})
