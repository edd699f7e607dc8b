/** Tests the heartbeat thread on a real Postgres. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../test/postgres/database.ts'
import { eventually } from '../../test/support/eventually.ts'
import { openNode } from '../../test/support/postgres-nodes.ts'
import { systemClock } from '../clock.ts'
import { DEFAULTS } from '../config/settings.ts'
import { StoreUnavailable } from '../store/store.ts'
import { startHeartbeat } from './heartbeat.ts'

const NODE = 'node-a'

function options(database: string, over: { onExpired?: () => void; onError?: (error: Error) => void } = {}) {
  return {
    settings: { ...DEFAULTS, database, jobs: { ...DEFAULTS.jobs, lease_seconds: 1 } },
    node: NODE,
    clock: systemClock,
    onExpired: () => {},
    onError: () => {},
    onFatal: (error: Error) => {
      throw error
    },
    ...over,
  }
}

/** Creates a database with its tables, and opens a connection to read and change leases. */
async function start(t: TestContext) {
  const url = await freshDatabase(t)
  const { store } = await openNode(url)
  const client = new pg.Client(url)
  await client.connect()
  t.after(async () => {
    await client.end()
    await store.close()
  })
  const leaseUntil = async () => {
    const { rows } = await client.query('select lease_until::text as until from nodes where node = $1', [
      NODE,
    ])
    return rows[0]?.until
  }
  return { url, client, leaseUntil }
}

test('the lease is there after the start, is renewed until the stop, and stays until it expires', async (t) => {
  const { url, client, leaseUntil } = await start(t)
  const heartbeat = await startHeartbeat(options(url))
  const first = await leaseUntil()
  assert.ok(first)
  await eventually(leaseUntil, (until) => until > first, { signal: t.signal })
  await heartbeat.stop()
  const last = await leaseUntil()
  const expired = async () =>
    (await client.query('select lease_until < clock_timestamp() as yes from nodes')).rows
  await eventually(expired, ([row]) => row?.yes === true, { signal: t.signal })
  assert.equal(await leaseUntil(), last)
})

test('a lease that another node took away is reported, and taken again', async (t) => {
  const { url, client, leaseUntil } = await start(t)
  const expired = Promise.withResolvers<void>()
  const heartbeat = await startHeartbeat(options(url, { onExpired: expired.resolve }))
  t.after(() => heartbeat.stop())
  await client.query('delete from nodes')
  await expired.promise
  assert.ok(await leaseUntil())
})

test('a renewal that fails is reported, and retried', async (t) => {
  const { url, client, leaseUntil } = await start(t)
  const failed = Promise.withResolvers<Error>()
  const heartbeat = await startHeartbeat(options(url, { onError: failed.resolve }))
  t.after(() => heartbeat.stop())
  await client.query('alter table nodes rename to gone')
  assert.match((await failed.promise).message, /nodes/)
  await client.query('alter table gone rename to nodes')
  const before = await leaseUntil()
  await eventually(leaseUntil, (until) => until > before, { signal: t.signal })
})

test('a start rejects if the lease cannot be taken', async () => {
  const nowhere = 'postgres://nobody@127.0.0.1:1/nothing'
  await assert.rejects(startHeartbeat(options(nowhere)), StoreUnavailable)
})
