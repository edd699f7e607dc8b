import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { startCuttingProxy } from '../../../test/nodes/cutting-proxy.ts'
import { startCluster } from '../../../test/postgres/cluster.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import {
  acceptance,
  addAccounts,
  claimNext,
  newJob,
  settlement,
} from '../../../test/store-contract/fixtures.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { Database } from './database.ts'
import { Notifications } from './notifications.ts'

async function twoNodes(t: TestContext) {
  const url = await freshDatabase(t)
  const [one, other] = [await openNode(url), await openNode(url)]
  await addAccounts(one.store, 'acme')
  t.after(() => Promise.all([one.store.close(), other.store.close()]))
  return { url, one, other }
}

test('the other node is notified of a job that one node queues', async (t) => {
  const { one, other } = await twoNodes(t)
  const notified = other.jobsWaiting(1)
  await one.store.accept(acceptance([newJob()], { node: one.name }))
  await notified
  assert.equal((await claimNext(other.store, other.name, 5)).length, 1)
})

test('a node is notified of a job that another settles and that it has a pending response for', async (t) => {
  const { one, other } = await twoNodes(t)
  const [awaited, unawaited] = [newJob(), newJob()]
  await one.store.accept(acceptance([unawaited], { node: one.name }))
  await one.store.accept(acceptance([awaited], { node: one.name, awaited: true }))
  for (const { id, attempt } of await claimNext(other.store, other.name, 5)) {
    await other.store.settle(settlement({ jobId: id, attempt }, { node: other.name }))
  }
  assert.deepEqual(await one.settled(1), [awaited.id])
  assert.equal((await one.store.readEnded([awaited.id]))[0]?.status, 'completed')
})

test('more settled jobs than fit in one notification arrive in several', async (t) => {
  const { one, other } = await twoNodes(t)
  const jobs = Array.from({ length: 450 }, () => newJob())
  await one.store.accept(acceptance(jobs, { node: one.name, awaited: true }))
  for (const { id, attempt } of await claimNext(other.store, other.name, 1000)) {
    void other.store.settle(settlement({ jobId: id, attempt }, { node: other.name }))
  }
  assert.deepEqual(new Set(await one.settled(jobs.length)), new Set(jobs.map(({ id }) => id)))
})

test('with notifications lost, the queue is polled every second; they come back by themselves', async (t) => {
  const { url, one, other } = await twoNodes(t)
  const client = new pg.Client(url)
  await client.connect()
  const listening = [one, other].map(({ name }) => `listen "parley_node_${name}"`)
  const ended = await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where query = any($1)',
    [listening],
  )
  assert.equal(ended.rowCount, 2)
  await client.end()
  await one.store.accept(acceptance([newJob()], { node: one.name }))
  await other.jobsWaiting(1)
  assert.equal((await claimNext(other.store, other.name, 5)).length, 1)
  // After the reconnection, a notification arrives.
  await one.jobsWaiting(2)
  await one.store.accept(acceptance([newJob()], { node: one.name, awaited: true }))
  for (const { id, attempt } of await claimNext(other.store, other.name, 5)) {
    await other.store.settle(settlement({ jobId: id, attempt }, { node: other.name }))
  }
  assert.equal((await one.settled(1)).length, 1)
})

test('however often a node tried to reconnect, it listens on one connection', async (t) => {
  const direct = await freshDatabase(t)
  const proxy = await startCuttingProxy(direct)
  const { store, name, jobsWaiting } = await openNode(proxy.url)
  t.after(async () => {
    await store.close()
    await proxy.close()
  })
  proxy.shut()
  // Each poll tries to connect through the pool, and the listener tries on its own: for three seconds.
  await jobsWaiting(3)
  assert.ok(proxy.turnedAway() > 3)
  proxy.open()
  await jobsWaiting(3)
  const client = new pg.Client(direct)
  await client.connect()
  const { rows } = await client.query('select 1 from pg_stat_activity where query = $1', [
    `listen "parley_node_${name}"`,
  ])
  await client.end()
  assert.equal(rows.length, 1)
})

test('a connection on which the database does not respond any longer is replaced', async (t) => {
  const direct = await freshDatabase(t)
  const proxy = await startCuttingProxy(direct)
  const times = { connections: 1, prepare: true, statementMs: 100, networkMs: 400 }
  const database = new Database({ url: direct, ...times })
  const common = { ...times, database, onChange: () => {} }
  const notified = Promise.withResolvers<void>()
  let isSilent = false
  // Both nodes send a notification at each poll, because only a node that sends notices that the database is silent.
  const one = new Notifications({
    ...common,
    url: proxy.url,
    node: 'one',
    onQueued: () => {
      if (isSilent) notified.resolve()
    },
    onPoll: () => one.jobQueued('a route', 1),
  })
  const other = new Notifications({
    ...common,
    url: direct,
    node: 'other',
    onQueued: () => {},
    onPoll: () => other.jobQueued('a route', 1),
  })
  t.after(async () => {
    await proxy.close()
    await Promise.all([one.close(), other.close()])
    await database.close()
  })
  await Promise.all([one.begin(), other.begin()])
  proxy.silence()
  isSilent = true
  await notified.promise
})

test('no statement changes a setting of its session, which a pooler may give to another node or to jobs', async (t) => {
  const cluster = await startCluster({ settings: { log_statement: 'all' } })
  t.after(() => cluster.stop())
  const node = await openNode(cluster.url())
  await addAccounts(node.store, 'acme')
  await node.store.accept(acceptance([newJob()], { node: node.name, awaited: true }))
  for (const { id, attempt } of await claimNext(node.store, node.name, 5)) {
    await node.store.settle(settlement({ jobId: id, attempt }, { node: node.name }))
  }
  await node.store.close()
  const statements = cluster.log().matchAll(/(?:statement|execute [^:]*):\s*(set\s.*)/g)
  assert.deepEqual(
    [...statements].map(([, statement = '']) => statement).filter((one) => !one.startsWith('set local ')),
    [],
  )
})
