/**
 * Tests the lease on a real Postgres, with a fake clock for the node. Leases expire by the database's clock. So to expire the
 * lease of another node, the tests renew it to a time in the past.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { freshDatabase } from '../../test/postgres/database.ts'
import { acceptance, claimOf, ids, newJob, now } from '../../test/store-contract/fixtures.ts'
import { addAccounts, claimNext } from '../../test/store-contract/steps.ts'
import { openNode } from '../../test/support/postgres-nodes.ts'
import { claimQueued } from '../../test/support/start-worker.ts'
import type { Claim } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'
import { AssigningCalls, NodeLease } from './node-lease.ts'

const LEASE_MS = 30_000
const HOUR_MS = 3_600_000
const ENDED_MS = -1

/** Holds the claims in `held`, and records what the lease does with them. */
class FakeWorker {
  held: Claim[] = []
  readonly lost: Claim[] = []
  woken = 0
  readonly assigningCalls = new AssigningCalls()
  claims = () => this.held
  holds = ({ jobId, attempt }: Claim) =>
    this.held.some((claim) => claim.jobId === jobId && claim.attempt === attempt)
  lose = (claim: Claim) => void this.lost.push(claim)
  wake = () => {
    this.woken += 1
  }
}

async function make(t: TestContext) {
  const { store } = await openNode(await freshDatabase(t))
  await addAccounts(store, 'acme')
  const clock = new FakeClock()
  const worker = new FakeWorker()
  const events: string[] = []
  const heartbeat = { expire: () => {}, stopped: false }
  /** While `isDown` is true, `revertCrashes` fails. If `isDown` is a promise, `revertCrashes` waits for it. */
  const database: { isDown: boolean | Promise<void>; hasJumped: boolean } = {
    isDown: false,
    hasJumped: false,
  }
  const lease = new NodeLease({
    store: {
      shared: true,
      claimsOf: (...args) => store.claimsOf(...args),
      revertCrashes: async () => {
        if (database.isDown === true) throw new Error('out of reach')
        await database.isDown
        return store.revertCrashes()
      },
      absentNodes: () => store.absentNodes(),
      confirmCrashes: (nodes, absentMs) =>
        store.confirmCrashes(nodes, database.hasJumped ? ENDED_MS : absentMs),
      leave: (...args) => store.leave(...args),
      rescue: (...args) => store.rescue(...args),
      release: (...args) => store.release(...args),
    },
    worker,
    node: 'node-a',
    clock,
    leaseMs: LEASE_MS,
    startHeartbeat: async (onExpired) => {
      await store.renew('node-a', LEASE_MS)
      heartbeat.expire = onExpired
      return {
        stop: async () => {
          heartbeat.stopped = true
        },
      }
    },
    events: {
      rescued: (jobs) => events.push(`rescued ${jobs}`),
      reverted: (crashes) => events.push(`reverted ${crashes}`),
      lost: (jobs) => events.push(`lost ${jobs}`),
      gone: (jobs) => events.push(`gone ${jobs}`),
      error: (message) => events.push(message),
    },
  })
  t.after(async () => {
    await lease.stop()
    await store.close()
  })
  /** Advances the clock by this many leases, from timer to timer, and waits until the task of each timer has ended. */
  const pass = async (leases: number) => {
    const end = clock.steadyMs() + leases * LEASE_MS
    while (clock.steadyMs() < end) {
      const next = await clock.timerSet()
      clock.advance(Math.min(next, end - clock.steadyMs()))
    }
    await clock.timerSet()
  }
  return { store, clock, database, worker, events, lease, heartbeat, pass }
}

async function start(t: TestContext) {
  const node = await make(t)
  await node.lease.start()
  return node
}
type Node = Awaited<ReturnType<typeof start>>

/** Creates a job that this node, or the given one, holds. */
async function heldJob(store: Store, node = 'node-a') {
  const job = newJob()
  await store.accept(acceptance([job], { handedOff: true, node }))
  return { job, claim: { jobId: job.id, attempt: 1 } }
}

/** Creates a job that a node with an expired lease holds. */
async function deadJob(store: Store, node = 'node-b') {
  await store.renew(node, ENDED_MS)
  return (await heldJob(store, node)).job
}

/** Asserts that the node rescues the only job of a dead node between these two numbers of leases from now. */
async function assertRescued({ events, pass }: Node, earliest: number, latest: number) {
  events.length = 0
  await pass(earliest)
  assert.deepEqual(events, [])
  await pass(latest - earliest)
  assert.deepEqual(events, ['rescued 1'])
}

/** Claims suspects as a worker does whose jobs fail at this crash count. */
const claimSuspects = async ({ store }: Node, maxCrashCount: number) => {
  const from = { of: 'suspects', crashCount: 1, maxCrashCount, exceptRoutes: [] } as const
  return ids((await store.claim('node-a', 5, now.ms, from)).jobs)
}

/** Asserts that the crash of the job is confirmed between these two numbers of leases from now. */
async function assertConfirmed(node: Node, { id }: { id: string }, earliest: number, latest: number) {
  await node.pass(earliest)
  assert.deepEqual(await claimSuspects(node, 1), [])
  await node.pass(latest - earliest)
  assert.deepEqual(await claimSuspects(node, 1), [id])
}

test('rescues the jobs of a dead node, once this node has been in touch for as long as a lease', async (t) => {
  const node = await start(t)
  const job = await deadJob(node.store)
  // All nodes may have been without the database, so each must first get the time to renew its lease.
  await assertRescued(node, 0.9, 1.2)
  assert.equal(node.worker.woken, 1)
  assert.deepEqual(await claimSuspects(node, 3), [job.id])
})

test('after the database was unreachable, no node counts as dead before a lease has passed again', async (t) => {
  const node = await start(t)
  await node.pass(2)
  node.database.isDown = true
  await node.pass(2)
  node.database.isDown = false
  await deadJob(node.store)
  await assertRescued(node, 0.9, 1.2)
})

test('an outage that is shorter than a lease, but longer than what a lease may have left, counts as one', async (t) => {
  const node = await start(t)
  await node.pass(1.2)
  node.database.isDown = true
  await node.pass(0.6)
  // The job's node renewed its lease 4/9 of a lease before the outage, and has been unable to renew it since.
  await deadJob(node.store)
  node.database.isDown = false
  await assertRescued(node, 0.8, 1.2)
})

test('a write that is answered after half a lease counts as an outage', async (t) => {
  const node = await start(t)
  const { store, clock, database } = node
  await node.pass(1.2)
  const { promise, resolve } = Promise.withResolvers<void>()
  database.isDown = promise
  // The next look begins a write, which waits.
  clock.advance(await clock.timerSet())
  clock.advance(LEASE_MS * 0.6)
  await deadJob(store)
  database.isDown = false
  resolve()
  await assertRescued(node, 0.8, 1.4)
})

test('a clock that jumps by an hour either way changes nothing', async (t) => {
  const { store, clock, events, pass } = await start(t)
  await pass(1.5)
  await store.renew('node-b', LEASE_MS)
  await heldJob(store, 'node-b')
  for (const jump of [HOUR_MS, -2 * HOUR_MS, HOUR_MS]) {
    clock.jump(jump)
    await pass(1 / 3)
  }
  assert.deepEqual(events, [])
  assert.equal(await store.renew('node-a', LEASE_MS), true)
})

test('a job that the database no longer gives to this node is ended, and the lease is not lost', async (t) => {
  const { store, worker, events, pass } = await start(t)
  const { claim } = await heldJob(store)
  await store.release('node-a', [claim])
  // The database no longer assigns the job to this node, but the worker still holds it, as right after a settlement.
  worker.held = [claim]
  await pass(0.5)
  assert.deepEqual([worker.lost, events], [[claim], ['gone 1']])
})

test('a job that another node rescued is ended here', async (t) => {
  const { store, worker, events, heartbeat, pass } = await start(t)
  const { claim } = await heldJob(store)
  worker.held = [claim]
  await pass(0.5)
  assert.deepEqual(worker.lost, [])
  await store.renew('node-a', ENDED_MS)
  assert.equal(await store.rescue('node-b', now.ms), 1)
  assert.equal(await store.renew('node-a', LEASE_MS), false)
  heartbeat.expire()
  await pass(1 / 9)
  assert.deepEqual([worker.lost, events], [[claim], ['lost 1', 'reverted 1']])

  // The lease reports its expiry even if the worker no longer holds a job, because operators need to know.
  worker.held = []
  heartbeat.expire()
  await pass(1 / 9)
  assert.deepEqual(events.slice(2), ['lost 0'])
})

test('crashes of nodes that came back are reverted, and others are confirmed after ten leases', async (t) => {
  const node = await start(t)
  const { store, database, worker, events, pass } = node
  const [paused, dead] = [await deadJob(store, 'node-b'), await deadJob(store, 'node-c')]
  await pass(1.3)
  assert.deepEqual(events, ['rescued 2'])
  await store.renew('node-b', HOUR_MS)
  await pass(1 / 9)
  assert.deepEqual(events, ['rescued 2', 'reverted 1'])
  const claimed = await claimQueued(store, 'node-a', now.ms)
  assert.deepEqual(ids(claimed), [paused.id])
  worker.held = claimed.map(claimOf)
  // The database's clock has not advanced, and this node's clock alone confirms no crash.
  await pass(11)
  assert.deepEqual(await claimSuspects(node, 1), [])
  database.hasJumped = true
  await pass(1 / 9)
  assert.deepEqual(await claimSuspects(node, 1), [dead.id])
})

test('a jump of the clock of the database confirms no crash before this node has seen the other absent for ten leases', async (t) => {
  const node = await start(t)
  const job = await deadJob(node.store)
  node.database.hasJumped = true
  await node.pass(1.3)
  assert.deepEqual(node.events, ['rescued 1'])
  await assertConfirmed(node, job, 9.5, 10.5)
})

test('a node that came back in between must be absent for ten leases again', async (t) => {
  const node = await start(t)
  const { store, database, events, pass } = node
  const job = await deadJob(store)
  database.hasJumped = true
  await pass(6)
  await store.renew('node-b', HOUR_MS)
  await pass(1 / 9)
  assert.deepEqual(ids(await claimQueued(store, 'node-b', now.ms)), [job.id])
  await store.renew('node-b', ENDED_MS)
  await assertConfirmed(node, job, 9.5, 10.5)
  assert.deepEqual(events, ['rescued 1', 'reverted 1', 'rescued 1'])
})

test('after an outage, in which it may have come back, a node must be absent for ten leases again', async (t) => {
  const node = await start(t)
  const { store, database, events, pass } = node
  const job = await deadJob(store)
  database.hasJumped = true
  await pass(6)
  database.isDown = true
  await pass(1)
  database.isDown = false
  await assertConfirmed(node, job, 9.5, 11.5)
  assert.equal(events[0], 'rescued 1')
})

test('a node that was paused and stops at once reverts its crashes itself', async (t) => {
  const { store, events, lease, heartbeat } = await start(t)
  const { job } = await heldJob(store)
  await store.renew('node-a', ENDED_MS)
  await store.rescue('node-b', now.ms)
  await store.renew('node-a', LEASE_MS)
  await lease.stop()
  assert.deepEqual([events, heartbeat.stopped], [['reverted 1'], true])
  const [claimed] = await claimQueued(store, 'node-b', now.ms)
  assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 0])
})

test('a job that only the database gives to this node is released at the second renewal', async (t) => {
  const { store, worker, pass } = await start(t)
  const { job } = await heldJob(store)
  await pass(0.4)
  assert.deepEqual(await claimQueued(store, 'node-b', now.ms), [])
  await pass(0.4)
  const [claimed] = await claimQueued(store, 'node-b', now.ms)
  assert.deepEqual([claimed?.id, claimed?.attempt, claimed?.crashCount], [job.id, 2, 0])
  assert.equal(worker.woken, 1)
})

test('a job that only the database gives to this node is kept while the create that assigned it has no response', async (t) => {
  const { store, worker, pass } = await start(t)
  const call = worker.assigningCalls.begin()
  const { claim } = await heldJob(store)
  await pass(2)
  assert.deepEqual(await store.claimsOf('node-a'), [claim])
  worker.assigningCalls.end(call)
  await pass(1 / 3)
  assert.deepEqual(await store.claimsOf('node-a'), [])
})

test('the lease ends with the node, unless the node still holds a job', async (t) => {
  const { store, worker, lease } = await start(t)
  worker.held = [{ jobId: newJob().id, attempt: 1 }]
  await lease.stop()
  assert.equal(await store.renew('node-a', LEASE_MS), true)
  worker.held = []
  await lease.stop()
  assert.equal(await store.renew('node-a', LEASE_MS), false)
})

test('a node that stops releases jobs that only the database gives to it, and they count no crash', async (t) => {
  const { store, lease } = await start(t)
  const { job } = await heldJob(store)
  await lease.stop()
  await store.rescue('node-c', now.ms)
  const [claimed] = await claimNext(store, 'node-c', 1)
  assert.deepEqual([claimed?.id, claimed?.crashCount], [job.id, 0])
})

test('a start that fails ends the heartbeat that it began', async (t) => {
  const { lease, heartbeat, database } = await make(t)
  database.isDown = true
  await assert.rejects(lease.start(), { message: 'out of reach' })
  assert.equal(heartbeat.stopped, true)
})
