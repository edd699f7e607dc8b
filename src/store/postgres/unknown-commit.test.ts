/** If the result of a statement is lost, the store or its caller finds out what the database did, and nothing is done twice. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startCuttingProxy } from '../../../test/nodes/cutting-proxy.ts'
import { blockedBy, connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { dueAt, owed, record, take } from '../../../test/store-contract/callback-fixtures.ts'
import {
  acceptance,
  claimOf,
  expiry,
  ids,
  newJob,
  now,
  settlement,
  several,
} from '../../../test/store-contract/fixtures.ts'
import {
  accept,
  addAccounts,
  addEnded,
  addHeld,
  addQueued,
  claimNext,
  storeEnded,
} from '../../../test/store-contract/steps.ts'
import { eventually } from '../../../test/support/eventually.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import type { Job } from '../../job/job.ts'
import { StoreUnavailable } from '../store.ts'

async function start(t: TestContext) {
  const url = await freshDatabase(t)
  const proxy = await startCuttingProxy(url)
  const { store, name } = await openNode(proxy.url)
  await addAccounts(store, 'acme')
  t.after(async () => {
    await store.close()
    await proxy.close()
  })
  /** Breaks the connection when the response to the statement with this name arrives. */
  const cut = async <T>(statement: string, work: () => Promise<T>): Promise<T> => {
    const before = proxy.cuts()
    proxy.cutAtNextAnswer(statement)
    try {
      return await work()
    } finally {
      assert.equal(proxy.cuts(), before + 1, 'no answer was cut off')
    }
  }
  return { url, proxy, store, name, cut }
}

test('an acceptance whose answer was cut off is accepted, once', async (t) => {
  const { store, cut } = await start(t)
  const waiting = await cut('accept', () => addQueued(store))
  await cut('accept', () => addHeld(store))
  assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [waiting.id])
  assert.deepEqual(await store.depth(), { waiting: 0, assigned: 2, oldestCreatedAtMs: null })
})

test('so is one with an idempotency key, and it repeats from then on', async (t) => {
  const { store, cut } = await start(t)
  const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
  const [job] = await cut('accept', () => accept(store, [newJob()], { idempotency }))
  const repeated = await store.accept(acceptance([newJob()], { idempotency }))
  assert.deepEqual(repeated, { kind: 'repeated', jobIds: [job.id] })
  assert.equal((await store.depth()).waiting, 1)
})

test('so is a job that a cached response completed', async (t) => {
  const { store, cut } = await start(t)
  const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + 300_000 }
  await addEnded(store, {}, { cache })
  const job = newJob()
  const ofCached = acceptance([job], { fingerprint: cache.fingerprint, awaited: true })
  const accepted = await cut('accept', () => store.accept(ofCached))
  assert.deepEqual(accepted, { kind: 'accepted', answered: [{ jobId: job.id, contentJson: '"Hello back"' }] })
  assert.equal((await store.listUsage({ limit: 1 }))[0]?.jobs, 2)
})

test('so is a cached response that the first try stored while it was repeated', async (t) => {
  const { url, proxy, store, name } = await start(t)
  const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + 300_000 }
  await addEnded(store, {}, { cache })
  const job = newJob()
  const holder = await connectPostgres(t, url)
  const blocked = () => blockedBy(holder)
  const key = `k of ${name}`
  await holder.query("select pg_advisory_lock(hashtextextended('acme' || chr(31) || $1, 0))", [key])
  const idempotency = { key, fingerprint: 'f', untilMs: now.ms + 1000 }
  const fields = { fingerprint: cache.fingerprint, awaited: true, idempotency }
  const accepted = store.accept(acceptance([job], fields))
  await eventually(blocked, (count) => count === 1)
  proxy.shut()
  proxy.open()
  await eventually(blocked, (count) => count === 2)
  await holder.query('select pg_advisory_unlock_all()')
  const answered = [{ jobId: job.id, contentJson: '"Hello back"' }]
  assert.deepEqual(await accepted, { kind: 'accepted', answered })
})

test('a group of 256 acceptances, most with keys, is stored once although its commit was unknown', async (t) => {
  const { store, cut } = await start(t)
  const jobs = several(256)
  const keyOf = (index: number) => ({ key: `k${index}`, fingerprint: 'f', untilMs: now.ms + 1e9 })
  const acceptAll = (some: readonly Job[]) =>
    Promise.all(
      some.map((job, index) =>
        store.accept(acceptance([job], { idempotency: index % 4 === 0 ? null : keyOf(index) })),
      ),
    )
  const accepted = await cut('accept', () => acceptAll(jobs))
  assert.deepEqual(new Set(accepted.map(({ kind }) => kind)), new Set(['accepted']))
  assert.equal((await store.depth()).waiting, 256)
  const again = await acceptAll(several(256))
  assert.deepEqual(
    again.map((one, index) =>
      one.kind === 'repeated' ? one.jobIds[0] === jobs[index]?.id : index % 4 === 0,
    ),
    jobs.map(() => true),
  )
})

test('of two unknown acceptances, only that of an account deleted meanwhile is rejected', async (t) => {
  const { url, proxy, store, cut } = await start(t)
  const operator = await connectPostgres(t, url)
  await addAccounts(store, 'leaving')
  const jobs = [newJob(), newJob({ account: 'leaving' })]
  const results = await cut('accept', async () => {
    const written = Promise.allSettled(jobs.map((job) => store.accept(acceptance([job]))))
    await eventually(proxy.cuts, (cuts) => cuts === 1)
    proxy.shut()
    await operator.query("delete from accounts where name = 'leaving'")
    proxy.open()
    return written
  })
  assert.deepEqual(
    results.map((result) => (result.status === 'rejected' ? result.reason.name : 'stored')),
    ['stored', 'UnknownAccount'],
  )
})

test('a settlement whose answer was cut off counts as settled when it is retried, and only then', async (t) => {
  const { store, cut } = await start(t)
  const job = await addHeld(store)
  const mine = settlement({ jobId: job.id, attempt: 1 })
  await assert.rejects(
    cut('settle', () => store.settle(mine)),
    StoreUnavailable,
  )
  assert.equal(await store.settle(mine), 'settled')
  assert.equal(await store.settle(mine), 'stale')
  assert.equal((await store.listUsage({ limit: 1 }))[0]?.jobs, 1)
})

test('a settlement counts as settled when it is retried because nothing was learned of another one in its group', async (t) => {
  const { store, url, proxy } = await start(t)
  const [ended, held] = [newJob(), newJob()]
  const late = settlement({ jobId: ended.id, attempt: 1 })
  await storeEnded(store, ended, late)
  await accept(store, [held], { handedOff: true })
  const mine = settlement({ jobId: held.id, attempt: 1 })
  const client = await connectPostgres(t, url)
  await client.query('begin; lock table jobs in access exclusive mode')
  const first = Promise.allSettled([store.settle(mine), store.settle(late)])
  const blocked = () => blockedBy(client)
  await eventually(blocked, (count) => count > 0)
  proxy.shut()
  assert.deepEqual(
    (await first).map((result) => result.status === 'rejected' && result.reason instanceof StoreUnavailable),
    [true, true],
  )
  await client.query('rollback')
  proxy.open()
  assert.deepEqual(await Promise.all([store.settle(mine), store.settle(late)]), ['settled', 'stale'])
  assert.equal((await store.listUsage({ limit: 1 }))[0]?.jobs, 2)
})

test('a fold of usage whose answer was cut off is not done twice', async (t) => {
  const { store, cut } = await start(t)
  await addEnded(store)
  await cut('fold usage', () => store.expire(expiry()))
  assert.equal((await store.listUsage({ limit: 1 }))[0]?.jobs, 1)
})

test('jobs of a claim whose answer was cut off are among what the node holds, and can be released', async (t) => {
  const { store, cut } = await start(t)
  const job = await addQueued(store)
  await assert.rejects(
    cut('claim', () => claimNext(store, 'node-a', 5)),
    StoreUnavailable,
  )
  const held = await store.claimsOf('node-a')
  assert.deepEqual(held, [{ jobId: job.id, attempt: 1 }])
  await store.release('node-a', held)
  const [again] = await claimNext(store, 'node-a', 5)
  assert.ok(again)
  assert.deepEqual([claimOf(again), again.crashCount], [{ jobId: job.id, attempt: 2 }, 0])
})

test('a read whose answer was cut off is read again', async (t) => {
  const { store, cut } = await start(t)
  const job = await addQueued(store)
  assert.equal((await cut('read', () => store.read('acme', job.id, expiry())))?.status, 'pending')
})

test('an attempt of a callback is listed once if the answer to its record was cut off', async (t) => {
  const { store, cut } = await start(t)
  const jobId = await owed(store)
  await take(store)
  const attempt = record(jobId, 1, dueAt(now.ms + 5000))
  await assert.rejects(
    cut('record callbacks', () => store.recordCallback(attempt)),
    StoreUnavailable,
  )
  await store.recordCallback(attempt)
  const callback = await store.findCallback(jobId)
  assert.deepEqual(callback?.log, [attempt.attempt])
})
