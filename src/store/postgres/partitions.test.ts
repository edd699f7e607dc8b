import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../../test/postgres/database.ts'
import {
  acceptance,
  addAccounts,
  DAY_MS,
  expiry,
  newJob,
  settlement,
} from '../../../test/store-contract/fixtures.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { jobIdMaker } from '../../job/job-id.ts'
import type { Expiry } from '../expiry.ts'
import { Database } from './database.ts'
import { keepPartitions } from './partitions.ts'

const NOON_MS = Date.UTC(2026, 5, 1, 12)

async function start(t: TestContext) {
  const url = await freshDatabase(t)
  const { store } = await openNode(url)
  await addAccounts(store, 'acme')
  const database = new Database({ url, connections: 2, prepare: true, statementMs: 15_000 })
  t.after(() => Promise.all([store.close(), database.close()]))
  const rows = async (sql: string) => {
    const client = new pg.Client(url)
    await client.connect()
    const result = await client.query(sql)
    await client.end()
    return result.rows
  }
  const spans = async () => {
    const found = await rows(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'jobs'::regclass order by 1",
    )
    return found.map(({ name }) => String(name).replace('jobs_', '')).filter((name) => name !== 'default')
  }
  const jobsIn = async (span: string) => Number((await rows(`select count(*) as n from jobs_${span}`))[0]?.n)
  const connect = async () => {
    const client = new pg.Client(url)
    await client.connect()
    t.after(() => client.end())
    return client
  }
  return { url, store, spans, jobsIn, connect, keep: (at: Expiry) => keepPartitions(database, at) }
}

/** A job that was created at this time. */
function jobAt(ms: number, over = {}) {
  const makeId = jobIdMaker({ nowMs: () => ms }, (bytes) => randomBytes(bytes).toString('hex'))
  return newJob({ id: makeId(), createdAtMs: ms, ...over })
}

const day = (ms: number) => {
  const from = Math.floor(ms / DAY_MS) * DAY_MS
  return `${from / 1000}_${(from + DAY_MS) / 1000}`
}
const week = (nowMs: number) => expiry(nowMs, 7 * DAY_MS)

test('there is a partition for today and for the days to come, and jobs go there', async (t) => {
  const { store, spans, jobsIn, keep } = await start(t)
  await keep(week(NOON_MS))
  await keep(week(NOON_MS))
  for (const ahead of [0, 1, 2]) assert.ok((await spans()).includes(day(NOON_MS + ahead * DAY_MS)))
  await store.accept(acceptance([jobAt(NOON_MS), jobAt(NOON_MS + DAY_MS), jobAt(NOON_MS + 30 * DAY_MS)]))
  assert.equal(await jobsIn(day(NOON_MS)), 1)
  assert.equal(await jobsIn(day(NOON_MS + DAY_MS)), 1)
  assert.equal(await jobsIn('default'), 1)
})

test('a node starts while a dump of the database keeps an expired partition from being dropped', async (t) => {
  const { url, spans, keep, connect } = await start(t)
  await keep(week(NOON_MS))
  const dump = await connect()
  await dump.query('begin; lock table jobs in access share mode')
  const { store, notes } = await openNode(url)
  t.after(() => store.close())
  assert.match(notes.join(), /^partitions could not be .* lock timeout/)
  assert.equal((await store.accept(acceptance([newJob()]))).kind, 'accepted')
  await dump.query('rollback')
  await store.expire(week(NOON_MS + 60 * DAY_MS))
  assert.ok(!(await spans()).includes(day(NOON_MS)))
})

test('a day is dropped when all its jobs have expired, with its outcomes, and not before', async (t) => {
  const { store, spans, keep } = await start(t)
  await keep(week(NOON_MS))
  const [done, late] = [jobAt(NOON_MS), jobAt(NOON_MS)]
  await store.accept(acceptance([done, late], { handedOff: true }))
  await store.settle(settlement({ jobId: done.id, attempt: 1 }, { nowMs: NOON_MS }))
  const span = day(NOON_MS)

  // One of the day's jobs is still running.
  await keep(week(NOON_MS + 60 * DAY_MS))
  assert.ok((await spans()).includes(span))
  // The job finishes so late that it can still be read.
  await store.settle(settlement({ jobId: late.id, attempt: 1 }, { nowMs: NOON_MS + 60 * DAY_MS }))
  await keep(week(NOON_MS + 66 * DAY_MS))
  assert.ok((await spans()).includes(span))
  assert.ok(await store.read('acme', late.id, week(NOON_MS + 66 * DAY_MS)))
  await keep(week(NOON_MS + 67 * DAY_MS + 1))
  assert.ok(!(await spans()).includes(span))
  assert.equal(await store.read('acme', done.id, expiry(NOON_MS, 1e15)), null)
  assert.deepEqual(await store.readEnded([done.id, late.id]), [])
})

test('a day whose callback is still owed stays', async (t) => {
  const { store, spans, keep } = await start(t)
  await keep(week(NOON_MS))
  const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
  const job = jobAt(NOON_MS, { callback })
  await store.accept(acceptance([job], { handedOff: true }))
  await store.settle(settlement({ jobId: job.id, attempt: 1 }, { nowMs: NOON_MS }))
  const later = NOON_MS + 60 * DAY_MS
  await keep(week(later))
  assert.ok((await spans()).includes(day(NOON_MS)))
  await store.createKey({
    id: 'k',
    hash: 'h',
    account: 'acme',
    tier: 'user_max',
    secret: 'whsec_1',
    createdAtMs: 0,
    expiresAtMs: null,
  })
  const lane = 'first'
  await store.takeCallbacks({ node: 'node-a', queue: lane, limit: 1, nowMs: later, leaseUntilMs: later })
  const attempt = { attempt: 1, atMs: later, ms: 1, status: 200, error: null, answer: '' }
  await store.recordCallback({ jobId: job.id, attempt, next: { kind: 'delivered' }, nowMs: later })
  await keep(week(later))
  assert.ok(!(await spans()).includes(day(NOON_MS)))
})

test('jobs that came before their partition stay in the default one, and expire row by row', async (t) => {
  const { store, spans, jobsIn, keep } = await start(t)
  const stray = jobAt(NOON_MS)
  await store.accept(acceptance([stray], { handedOff: true }))
  await store.settle(settlement({ jobId: stray.id, attempt: 1 }, { nowMs: NOON_MS }))
  await keep(week(NOON_MS))
  assert.ok(!(await spans()).includes(day(NOON_MS)))
  assert.ok((await spans()).includes(day(NOON_MS + DAY_MS)))
  assert.ok(await store.read('acme', stray.id, week(NOON_MS)))
  while (await store.expire(week(NOON_MS + 8 * DAY_MS)));
  assert.equal(await jobsIn('default'), 0)
})

test('the longer jobs are stored, the longer is a partition, and the next one begins where the last one ends', async (t) => {
  const { spans, keep } = await start(t)
  const hours = async () =>
    (await spans())
      .map((name) => name.split('_').map((second) => (Number(second) * 1000 - NOON_MS) / 3_600_000))
      .filter(([from = 0]) => from > -24 * 7 && from < 24 * 30)
      .sort(([one = 0], [other = 0]) => one - other)
  await keep(expiry(NOON_MS, 3_600_000))
  const first = [0, 1, 2].map((from) => [from, from + 1])
  assert.deepEqual(await hours(), first)
  await keep(expiry(NOON_MS, 365 * DAY_MS))
  const thursday = 60
  assert.deepEqual(await hours(), [
    ...first,
    [3, thursday],
    [thursday, thursday + 7 * 24],
    [thursday + 7 * 24, thursday + 14 * 24],
  ])
})

test('a partition that cannot be dropped does not keep others from being created', async (t) => {
  const { spans, keep, connect } = await start(t)
  await keep(week(NOON_MS))
  const report = await connect()
  await report.query(`begin; lock table jobs_${day(NOON_MS)} in access share mode`)
  const later = week(NOON_MS + 60 * DAY_MS)
  await assert.rejects(keep(later), /lock timeout/)
  assert.ok((await spans()).includes(day(later.nowMs)))
  await report.query('rollback')
  await keep(later)
  assert.ok(!(await spans()).includes(day(NOON_MS)))
})

test('many nodes that maintain partitions at once do not disturb each other', async (t) => {
  const { spans, keep } = await start(t)
  await Promise.all(Array.from({ length: 6 }, () => keep(week(NOON_MS))))
  await keep(week(NOON_MS))
  assert.ok((await spans()).includes(day(NOON_MS)))
})
