/**
 * Tests claims next to a node of version 0.3, which uses one sequence of turns for all routes, and whose notifications name no
 * route.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { ids, newJob, now, OF_ROUTE, several } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { accept, claimNext } from '../../../test/store-contract/steps.ts'
import { OtherNodes } from './parts.ts'
import { RouteWalks } from './route-walks.ts'

const ROUTE = 'a/m'

async function start(t: TestContext) {
  const { client: old, ...scene } = await openOnPostgres(t, 'acme', 'other')
  const [row] = await scene.query(
    `select 'parley_jobs_' || left(encode(sha256(current_schema()::text::bytea), 'hex'), 16) as name`,
  )
  return { ...scene, old, channel: String(row?.name) }
}

/** Queues a job like a node of version 0.3. */
async function queueAsOld(old: pg.Client, turn: number) {
  const job = newJob({ account: 'other' })
  await old.query(
    `insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
     values ($1, 'other', 'user_max', 'm', 0, 1, $2, '[]', '{"format":"text"}')`,
    [job.id, now.ms],
  )
  await old.query(
    `insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin, bytes, route)
     values ($1, 'other', false, $2, null, 0, 0, null, null, 2, $3)`,
    [job.id, turn, ROUTE],
  )
  return job
}

test('a job that a node of version 0.3 queues and announces is claimed at once, wherever the walk stands', async (t) => {
  const { node, old, channel } = await start(t)
  await accept(node.store, [newJob(), newJob()], { route: ROUTE })
  // The place is at the last of these jobs, which has a much higher turn than the next job.
  await node.store.claim('x', 2, now.ms, OF_ROUTE)
  assert.equal((await claimNext(node.store, node.name, 2, now.ms, ROUTE)).length, 2)
  const job = await queueAsOld(old, 5)
  const notified = node.jobsWaiting(1)
  await old.query('select pg_notify($1, $2)', [channel, '5'])
  await notified
  assert.deepEqual(ids(await claimNext(node.store, node.name, 2, now.ms, ROUTE)), [job.id])
})

test('what is announced to nodes of version 0.3 is a number to them', async (t) => {
  const { node, old, channel } = await start(t)
  await old.query(`listen ${old.escapeIdentifier(channel)}`)
  const payload = new Promise<string>((resolve) => {
    old.on('notification', (notification) => resolve(notification.payload ?? ''))
  })
  const jobs = several(3)
  await accept(node.store, jobs, { route: ROUTE })
  assert.equal(Number(await payload), 0)
})

test('while a node of version 0.3 runs, no job gets a lesser turn than that node has claimed, and it learns how far others are', async (t) => {
  const { node, old, database } = await start(t)
  await old.query(
    `insert into nodes (node, lease_until, turn) values ('old', clock_timestamp() + interval '1 hour', 70000)`,
  )
  await node.store.renew(node.name, 60_000)
  const walks = new RouteWalks()
  walks.reached({ [ROUTE]: 90_000, 'b/m': 10 })
  const others = new OtherNodes(database, node.name, walks)
  await others.look()
  assert.deepEqual(JSON.parse(walks.turnsJson()).floor, 70_000)
  const { rows } = await old.query('select turn, turns from nodes where node = $1', [node.name])
  assert.deepEqual(rows, [{ turn: '90000', turns: JSON.stringify({ [ROUTE]: 90_000, 'b/m': 10 }) }])
  const other = new RouteWalks()
  await new OtherNodes(database, 'other', other).look()
  assert.deepEqual(other.turns(), { [ROUTE]: 90_000, 'b/m': 10 })
})
