/** Tests migrations of the schema while nodes of the first version are running, which continue to work. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { expiry, newJob, now, settlement, USAGE } from '../../../test/store-contract/fixtures.ts'
import { openScene } from '../../../test/store-contract/postgres-scene.ts'
import { accept, addAccounts, settle } from '../../../test/store-contract/steps.ts'
import { FirstVersionNode } from '../../../test/support/first-version-node.ts'
import { refused } from '../../../test/support/transfer-databases.ts'
import type { Settlement } from '../store.ts'
import { MIGRATIONS } from './migrations.ts'
import { migratePostgres } from './schema.ts'

const AFTER_FIRST = MIGRATIONS.length - 1

async function start(t: TestContext) {
  const url = await freshDatabase(t)
  const old = await FirstVersionNode.start(url, 'old')
  t.after(() => old.stop())
  /** Opens a store of this version. */
  const openNew = async () => (await (await openScene(t, url)).open()).store
  return { url, old, openNew }
}

/** Accepts and settles jobs as a node of the first version does. */
async function endSome(old: FirstVersionNode) {
  const settle = async (model: string, over: Partial<Settlement> = {}) => {
    const jobs = [newJob({ model }), newJob({ model, account: 'other' })]
    await old.accept(jobs)
    const all = jobs.map(({ id }) => settlement({ jobId: id, attempt: 1 }, { node: 'old', ...over }))
    assert.deepEqual(await old.settle(all), [true, true])
    // A node settles again if it does not know whether its commit succeeded. The second time must change nothing.
    assert.deepEqual(await old.settle(all), [false, false])
  }
  await settle('gpt-5')
  await settle('gpt-5', { usage: { ...USAGE, calls: 0, input_tokens: 0, output_tokens: 0, cache_hit: true } })
  await settle('gpt-5', { outcome: { status: 'failed', error: { code: 'timeout', message: 'No.' } } })
  const february = Date.UTC(2026, 1, 1)
  await settle('gpt-5', { nowMs: february - 1 })
  await settle('gpt-5', { nowMs: february })
  const job = newJob({ model: 'gpt-5-mini' })
  await old.acceptEnded([job], [settlement({ jobId: job.id, attempt: 1 }, { node: 'old' })])
}

/** Returns the usage of this many calls of `endSome`. */
function usageOfSome(times: number) {
  const one = { jobs: 1, failedJobs: 0, cacheHits: 0, calls: 1, inputTokens: 3, outputTokens: 5 }
  const january = { jobs: 4, failedJobs: 1, cacheHits: 1, calls: 3, inputTokens: 9, outputTokens: 15 }
  const multiplied = (sums: object) =>
    Object.fromEntries(Object.entries(sums).map(([name, count]) => [name, count * times]))
  return [
    { account: 'acme', month: '2026-02', model: 'gpt-5', ...multiplied(one) },
    { account: 'other', month: '2026-02', model: 'gpt-5', ...multiplied(one) },
    { account: 'acme', month: '2026-01', model: 'gpt-5', ...multiplied(january) },
    { account: 'acme', month: '2026-01', model: 'gpt-5-mini', ...multiplied(one) },
    { account: 'other', month: '2026-01', model: 'gpt-5', ...multiplied(january) },
  ]
}

test('what ended before the migration and after it counts once, whichever version settles', async (t) => {
  const { old, openNew } = await start(t)
  await endSome(old)
  const store = await openNew()
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(1))
  // The old node still uses its connection, on which its statements were prepared before.
  await endSome(old)
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(2))
  while (await store.expire(expiry()));
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(2))

  // Either version settles what the other one accepted.
  const [mine, its] = [newJob({ account: 'both' }), newJob({ account: 'both' })]
  await old.accept([mine])
  assert.equal(await settle(store, mine, { node: 'old' }), 'settled')
  await addAccounts(store, 'both')
  await accept(store, [its], { node: 'new' })
  assert.deepEqual(await old.claim(5, now.ms), [its.id])
  assert.deepEqual(await old.settle([settlement({ jobId: its.id, attempt: 1 }, { node: 'old' })]), [true])
  const [sum] = await store.listUsage({ account: 'both', limit: 10 })
  assert.deepEqual([sum?.jobs, sum?.calls, sum?.inputTokens], [2, 2, 6])
})

test('what lands in partitions that an old node creates later counts, too, and they are dropped as a whole', async (t) => {
  const { url, old, openNew } = await start(t)
  await migratePostgres(url)
  const store = await openNew()
  const id = (start: string) => `00000000-${start}-0000-0000-000000000000`
  await old.makePartitions('late', id('0000'), id('0001'))
  const job = newJob({ id: '00000000-0000-7000-8000-000000000001' })
  await old.acceptEnded([job], [settlement({ jobId: job.id, attempt: 1 }, { node: 'old' })])
  const [sum] = await store.listUsage({ limit: 10 })
  assert.equal(sum?.jobs, 1)
  await old.dropPartitions('late')
  assert.deepEqual(await store.listUsage({ limit: 10 }), [sum])
})

test('crashes that an old node counts are reverted when the node comes back, also an old one', async (t) => {
  const { old, openNew } = await start(t)
  const store = await openNew()
  const [ofNew, ofOld] = [newJob(), newJob()]
  await addAccounts(store, 'acme')
  await accept(store, [ofNew], { node: 'new', handedOff: true })
  assert.equal(await old.rescue(now.ms), 1)
  await old.accept([ofOld])
  assert.equal(await store.rescue('new', now.ms), 1)
  const crashCounts = async () => {
    const found = await Promise.all([ofNew, ofOld].map(({ id }) => store.findJob(id, expiry())))
    return found.map((job) => job?.crashCount)
  }
  assert.deepEqual(await crashCounts(), [1, 1])
  // Nodes of every version return by renewing their lease.
  for (const node of ['new', 'old']) await store.renew(node, 60_000)
  assert.equal(await store.revertCrashes(), 2)
  assert.deepEqual(await crashCounts(), [0, 0])
})

test('nodes that start at the same time apply each migration once', async (t) => {
  const { url, old, openNew } = await start(t)
  await endSome(old)
  const taken = await Promise.all([1, 2, 3, 4].map(() => migratePostgres(url)))
  const sum = taken.reduce((all, count) => all + count)
  assert.equal(sum, AFTER_FIRST)
  const store = await openNew()
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(1))
})

test('an upgrade that was cut off between its migrations continues, and counts nothing twice', async (t) => {
  const { url, old, openNew } = await start(t)
  await endSome(old)
  const first = await connectPostgres(t, url)
  for (const step of MIGRATIONS.slice(1, 3)) await first.query(step)
  await first.query('insert into schema_version values (3)')
  await endSome(old)
  assert.equal(await migratePostgres(url), MIGRATIONS.length - 3)
  const store = await openNew()
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(2))
})

test('a table that another program locks for long is not waited for, and the next start continues', async (t) => {
  const { url, old, openNew } = await start(t)
  const backup = await connectPostgres(t, url)
  await backup.query('begin; lock table outcomes in access share mode')
  const attempt = migratePostgres(url, { lockMs: 20, tries: 2, pauseMs: 1 })
  await refused(attempt, /could not be locked.*pg_dump.*start again/)
  await endSome(old)
  await backup.query('rollback')
  // The previous migration was committed.
  assert.equal(await migratePostgres(url), AFTER_FIRST - 1)
  const store = await openNew()
  assert.deepEqual(await store.listUsage({ limit: 10 }), usageOfSome(1))
})

test('a connection that breaks during a migration is named as the cause', async (t) => {
  // This greeting of Postgres says that the password is accepted, and that the server is ready for a query.
  const greeting = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])
  const server = createServer((socket) => {
    socket.once('data', () => {
      socket.write(greeting)
      socket.once('data', () => socket.destroy())
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const attempt = migratePostgres(`postgres://somebody@127.0.0.1:${port}/any`)
  await refused(attempt, /Connection terminated unexpectedly/)
})
