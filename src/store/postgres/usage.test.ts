/** Usage while many nodes settle, fold, read and cancel at the same time. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../../test/postgres/database.ts'
import {
  acceptance,
  addAccounts,
  claimNext,
  expiry,
  newJob,
  now,
  settlement,
} from '../../../test/store-contract/fixtures.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'

async function start(t: TestContext) {
  const url = await freshDatabase(t)
  const nodes = [await openNode(url), await openNode(url)] as const
  await addAccounts(nodes[0].store, 'acme', 'a0', 'a1', 'a2')
  t.after(() => Promise.all(nodes.map(({ store }) => store.close())))
  const count = async (table: string) => {
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query(`select count(*)::integer as n from ${table}`)
    await client.end()
    return Number(rows[0]?.n)
  }
  return { url, nodes, count }
}

test('no reader misses or doubles anything while nodes settle and fold', async (t) => {
  const { nodes, count } = await start(t)
  const [{ store }, { store: other }] = nodes
  const jobs = Array.from({ length: 1200 }, (_, at) => newJob({ account: `a${at % 3}` }))
  await store.accept(acceptance(jobs, { handedOff: true }))
  // Creates the partitions before the concurrent writes start.
  for (const { store: node } of nodes) await node.expire(expiry())
  let settled = 0
  let isOver = false
  const settling = Promise.all(
    nodes.map(async ({ store: node }, which) => {
      const mine = jobs.filter((_, at) => at % 2 === which)
      for (let from = 0; from < mine.length; from += 20) {
        const some = mine.slice(from, from + 20)
        await Promise.all(some.map(({ id }) => node.settle(settlement({ jobId: id, attempt: 1 }))))
        settled += some.length
      }
    }),
  ).finally(() => {
    isOver = true
  })
  const folding = nodes.map(async ({ store: node }) => {
    while (!isOver) await node.expire(expiry())
  })
  let reads = 0
  for (let least = 0; !isOver; reads++) {
    const sums = await other.listUsage({ limit: 10 })
    const jobsNow = sums.reduce((total, sum) => total + sum.jobs, 0)
    assert.ok(jobsNow >= least && jobsNow <= jobs.length, `${jobsNow} after ${least}`)
    least = settled
  }
  await Promise.all([settling, ...folding])
  assert.ok(reads > 3, `${reads} reads`)
  await store.expire(expiry())
  assert.equal(await count('usage_deltas'), 0)
  const sums = await store.listUsage({ limit: 10 })
  assert.deepEqual(
    sums.map((sum) => [sum.account, sum.jobs, sum.inputTokens]),
    [
      ['a0', 400, 1200],
      ['a1', 400, 1200],
      ['a2', 400, 1200],
    ],
  )
  assert.deepEqual(await store.used('a1', '2026-01'), { jobs: 400, openJobs: 0, tokens: 3200 })
})

test('a sum never overflows, whatever a model server counts', async (t) => {
  const { nodes } = await start(t)
  const [{ store }] = nodes
  const usage = { ...settlement({ jobId: '', attempt: 1 }).usage, input_tokens: Number.MAX_SAFE_INTEGER }
  const jobs = Array.from({ length: 1100 }, () => newJob())
  await store.accept(acceptance(jobs, { handedOff: true }))
  const settled = await Promise.all(
    jobs.map(({ id }) => store.settle(settlement({ jobId: id, attempt: 1 }, { usage }))),
  )
  assert.ok(settled.every((how) => how === 'settled'))
  await store.expire(expiry())
  const [sum] = await store.listUsage({ limit: 10 })
  assert.ok(sum && sum.inputTokens > 2 ** 63)
})

test('a job that is cancelled while it is settled, claimed and released ends once, and counts once', async (t) => {
  const { nodes, count } = await start(t)
  const [{ store }, { store: other }] = nodes
  const jobs = Array.from({ length: 300 }, () => newJob())
  await store.accept(acceptance(jobs.slice(0, 200), { handedOff: true }))
  await store.accept(acceptance(jobs.slice(200)))
  const claims = jobs.slice(0, 200).map(({ id }) => ({ jobId: id, attempt: 1 }))
  const which = { account: 'acme', running: true, beforeJobId: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }
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

test('both the node that holds a cancelled job and the one with a pending response learn it, or it is forgotten', async (t) => {
  const { nodes, count } = await start(t)
  const [{ store }] = nodes
  const [reported, lost] = [newJob(), newJob()]
  await store.accept(acceptance([reported], { node: 'origin', awaited: true }))
  await claimNext(store, 'holder', 1)
  assert.equal(await store.cancelJob(reported.id, now.ms), 'cancelled')
  for (const node of ['origin', 'holder']) {
    assert.deepEqual(await store.takeCancelled(node), [{ jobId: reported.id, attempt: 1 }])
  }
  await store.accept(acceptance([lost], { node: 'dead', awaited: true }))
  await store.cancelJob(lost.id, now.ms)
  await store.expire(expiry(now.ms + 3_600_000))
  assert.equal(await count('cancelled_jobs'), 1)
  await store.expire(expiry(now.ms + 3_600_001))
  assert.equal(await count('cancelled_jobs'), 0)
})

test('a key that is created while its account is deleted belongs to an account, or does not exist', async (t) => {
  const { nodes, count } = await start(t)
  const [{ store }, { store: other }] = nodes
  for (let round = 0; round < 20; round++) {
    const key = (id: string) => ({
      id: `key_${round}_${id}`,
      hash: `${round} ${id}`,
      account: 'acme',
      tier: 'user_max' as const,
      secret: 's',
      createdAtMs: now.ms,
      expiresAtMs: null,
    })
    await store.createKey(key('first'))
    const [made] = await Promise.all([
      store.createKey(key('second')),
      other.deleteAccount('acme', 'deleted-1'),
    ])
    assert.deepEqual(made, { kind: 'created' })
    assert.equal(await count('keys where account not in (select name from accounts)'), 0)
  }
})
