/** Tests the heartbeat thread on a real Postgres, and when an event loop counts as hung. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../test/postgres/database.ts'
import { eventually } from '../../test/support/eventually.ts'
import { openNode } from '../../test/support/postgres-nodes.ts'
import { systemClock } from '../clock.ts'
import { DEFAULTS } from '../config/settings.ts'
import { StoreUnavailable } from '../store/store.ts'
import { LoopWatch, REPORT_EVERY_MS, startHeartbeat } from './heartbeat.ts'

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

const HANG_MS = 10_000

/** Checks every second until the watch finds a hang. Returns after how many milliseconds it did. */
function hangFoundAfterMs(watch: LoopWatch, reports: number, fromMs: number): number {
  for (let passedMs = REPORT_EVERY_MS; passedMs < 100 * HANG_MS; passedMs += REPORT_EVERY_MS) {
    if (watch.hangs(reports, fromMs + passedMs)) return passedMs
  }
  throw new Error('the watch finds no hang')
}

test('a loop that stops to report hangs after the limit, counted from its last report', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  for (let second = 1; second <= 60; second++) assert.equal(watch.hangs(second, second * 1000), false)
  assert.equal(hangFoundAfterMs(watch, 60, 60_000), HANG_MS)
})

test('a loop that reports again in time starts over', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  for (let second = 1; second < 10; second++) assert.equal(watch.hangs(0, second * 1000), false)
  assert.equal(watch.hangs(1, 10_000), false)
  assert.equal(hangFoundAfterMs(watch, 1, 10_000), HANG_MS)
})

test('time in which the whole process was stopped does not count', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  assert.equal(watch.hangs(1, 1000), false)
  // The process was stopped for an hour. The watch checks before the loop has reported again.
  assert.equal(watch.hangs(1, 3_601_000), false)
  assert.equal(hangFoundAfterMs(watch, 1, 3_601_000), HANG_MS - 2 * REPORT_EVERY_MS)
})
