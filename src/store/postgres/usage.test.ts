/** Tests usage and quotas while many nodes accept, settle, fold, read and cancel at the same time. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { COMPLETED, expiry, newJob, now, settlement, several } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { outcomeBytes, requestBytes } from '../../../test/store-contract/quotas.ts'
import { accept, claimNext, settle } from '../../../test/store-contract/steps.ts'
import { AFTER_ALL } from '../chunked-search.ts'
import { reconcileOpenJobs } from './quotas.ts'

async function start(t: TestContext) {
  const scene = await openOnPostgres(t, 'acme', 'a0', 'a1', 'a2')
  const { store: other } = await scene.open()
  return { ...scene, other }
}

test('no reader misses or doubles anything while nodes accept, settle, fold and correct', async (t) => {
  const { store, other, database, count } = await start(t)
  const jobs = Array.from({ length: 1200 }, (_, at) => newJob({ account: `a${at % 3}` }))
  // Creates the partitions before the concurrent writes start.
  for (const node of [store, other]) await node.expire(expiry())
  let settled = 0
  let isOver = false
  const working = Promise.all(
    [store, other].map(async (node, which) => {
      const mine = jobs.filter((_, at) => at % 2 === which)
      for (let from = 0; from < mine.length; from += 20) {
        const some = mine.slice(from, from + 20)
        await accept(node, some, { handedOff: true })
        await Promise.all(some.map((job) => settle(node, job)))
        settled += some.length
      }
    }),
  ).finally(() => {
    isOver = true
  })
  const folding = [store, other].map(async (node) => {
    while (!isOver) {
      await node.expire(expiry())
      await reconcileOpenJobs(database)
    }
  })
  const least = { jobs: 0, bytes: 0 }
  let reads = 0
  for (; !isOver; reads++) {
    const sums = await other.listUsage({ limit: 10 })
    const jobsNow = sums.reduce((total, sum) => total + sum.jobs, 0)
    assert.ok(jobsNow >= least.jobs && jobsNow <= jobs.length, `${jobsNow} after ${least.jobs}`)
    const { openJobs, storedBytes } = await other.quotaUse('a1')
    assert.ok(openJobs >= 0 && openJobs <= 40, `${openJobs} open jobs`)
    assert.ok(storedBytes >= least.bytes, `${storedBytes} bytes after ${least.bytes}`)
    Object.assign(least, { jobs: settled, bytes: storedBytes })
  }
  await Promise.all([working, ...folding])
  assert.ok(reads > 3, `${reads} reads`)
  await store.expire(expiry())
  assert.equal(await count('usage_deltas'), 0)
  const sums = await store.listUsage({ limit: 10 })
  assert.deepEqual(
    sums.map((sum) => [sum.account, sum.jobs, sum.inputTokens]),
    ['a0', 'a1', 'a2'].map((account) => [account, 400, 1200]),
  )
  assert.deepEqual(await store.used('a1', '2026-01'), { jobs: 400, openJobs: 0, tokens: 3200 })
  const storedBytes = 400 * (requestBytes(newJob()) + outcomeBytes(COMPLETED, '{}'))
  assert.deepEqual(await store.quotaUse('a1'), { openJobs: 0, storedBytes })
})

test('a job that is cancelled while it is settled, claimed and released ends once, and counts once', async (t) => {
  const { store, other, count } = await start(t)
  const jobs = several(300)
  await accept(store, jobs.slice(0, 200), { handedOff: true })
  await accept(store, jobs.slice(200))
  const claims = jobs.slice(0, 200).map(({ id }) => ({ jobId: id, attempt: 1 }))
  const which = { account: 'acme', running: true, beforeJobId: AFTER_ALL }
  const cancelAll = async () => {
    let total = 0
    for (let some = 40; some === 40; ) {
      some = await other.cancelJobs({ ...which, limit: 40, nowMs: now.ms })
      total += some
    }
    return total
  }
  const [cancelled, ...settled] = await Promise.all([
    cancelAll(),
    ...claims.slice(0, 100).map((claim) => store.settle(settlement(claim))),
    store.release('node-a', claims.slice(100)),
    claimNext(store, 'node-b', 50),
    claimNext(store, 'node-c', 50),
  ])
  const done = settled.filter((how) => how === 'settled').length
  assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
  assert.equal(cancelled + done, jobs.length)
  const [sum] = await store.listUsage({ limit: 10 })
  assert.deepEqual([sum?.jobs, sum?.failedJobs], [jobs.length, cancelled])
  assert.equal(await count('outcomes'), jobs.length)
})

test('a cancellation of which nobody learns is forgotten after an hour', async (t) => {
  const { store, count } = await start(t)
  const [lost] = await accept(store, [newJob()], { node: 'dead', awaited: true })
  await store.cancelJob(lost.id, now.ms)
  await store.expire(expiry(now.ms + 3_600_000))
  assert.equal(await count('cancelled_jobs'), 1)
  await store.expire(expiry(now.ms + 3_600_001))
  assert.equal(await count('cancelled_jobs'), 0)
})

test('a key that is created while its account is deleted belongs to an account, or does not exist', async (t) => {
  const { store, other, count } = await start(t)
  for (let round = 0; round < 20; round++) {
    const key = (id: string) => {
      const names = { id: `key_${round}_${id}`, hash: `${round} ${id}`, account: 'acme', secret: 's' }
      return { ...names, tier: 'user_max', createdAtMs: now.ms, expiresAtMs: null }
    }
    await store.createKey(key('first'))
    const [made] = await Promise.all([
      store.createKey(key('second')),
      other.deleteAccount('acme', 'deleted-1'),
    ])
    assert.deepEqual(made, { kind: 'created' })
    assert.equal(await count('keys where account not in (select name from accounts)'), 0)
  }
})
