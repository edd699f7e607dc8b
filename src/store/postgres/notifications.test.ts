import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startCuttingProxy } from '../../../test/nodes/cutting-proxy.ts'
import { startCluster } from '../../../test/postgres/cluster.ts'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { claimOf, newJob, settlement, several } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { accept, addAccounts, claimNext } from '../../../test/store-contract/steps.ts'
import { openNode, type TestNode } from '../../../test/support/postgres-nodes.ts'
import { Database } from './database.ts'
import { Notifications } from './notifications.ts'

async function twoNodes(t: TestContext) {
  const { node: one, ...scene } = await openOnPostgres(t, 'acme')
  return { ...scene, one, other: await scene.open() }
}

/** The node claims all queued jobs and settles them. */
async function settleAll({ store, name }: TestNode): Promise<void> {
  const jobs = await claimNext(store, name, 1000)
  await Promise.all(jobs.map((job) => store.settle(settlement(claimOf(job), { node: name }))))
}

test('the other node is notified of a job that one node queues', async (t) => {
  const { one, other } = await twoNodes(t)
  const notified = other.jobsWaiting(1)
  await accept(one.store, [newJob()], { node: one.name })
  await notified
  assert.equal((await claimNext(other.store, other.name, 5)).length, 1)
})

test('a node is notified of a job that another settles and that it has a pending response for', async (t) => {
  const { one, other } = await twoNodes(t)
  const [awaited, unawaited] = [newJob(), newJob()]
  await accept(one.store, [unawaited], { node: one.name })
  await accept(one.store, [awaited], { node: one.name, awaited: true })
  await settleAll(other)
  assert.deepEqual(await one.settled(1), [awaited.id])
  assert.equal((await one.store.readEnded([awaited.id]))[0]?.status, 'completed')
})

test('more settled jobs than fit in one notification arrive in several', async (t) => {
  const { one, other } = await twoNodes(t)
  const jobs = several(450)
  await accept(one.store, jobs, { node: one.name, awaited: true })
  await settleAll(other)
  assert.deepEqual(new Set(await one.settled(jobs.length)), new Set(jobs.map(({ id }) => id)))
})

test('with notifications lost, the queue is polled every second; they come back by themselves', async (t) => {
  const { client, one, other } = await twoNodes(t)
  const listening = [one, other].map(({ name }) => `listen "parley_node_${name}"`)
  const ended = await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where query = any($1)',
    [listening],
  )
  assert.equal(ended.rowCount, 2)
  await accept(one.store, [newJob()], { node: one.name })
  await other.jobsWaiting(1)
  assert.equal((await claimNext(other.store, other.name, 5)).length, 1)
  // Waits for the reconnection, after which notifications arrive again.
  await one.jobsWaiting(2)
  await accept(one.store, [newJob()], { node: one.name, awaited: true })
  await settleAll(other)
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
  const client = await connectPostgres(t, direct)
  const { rows } = await client.query('select 1 from pg_stat_activity where query = $1', [
    `listen "parley_node_${name}"`,
  ])
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
  await accept(node.store, [newJob()], { node: node.name, awaited: true })
  await settleAll(node)
  await node.store.close()
  const statements = cluster.log().matchAll(/(?:statement|execute [^:]*):\s*(set\s.*)/g)
  assert.deepEqual(
    [...statements].map(([, statement = '']) => statement).filter((one) => !one.startsWith('set local ')),
    [],
  )
})
