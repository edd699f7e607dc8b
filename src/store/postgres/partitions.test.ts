import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CALLBACK, DELIVERED, record, take } from '../../../test/store-contract/callback-fixtures.ts'
import { acceptance, DAY_MS, expiry, newJob, newJobId } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { accept, settle } from '../../../test/store-contract/steps.ts'
import type { Expiry } from '../expiry.ts'
import { keepPartitions } from './partitions.ts'

const NOON_MS = Date.UTC(2026, 5, 1, 12)

async function start(t: TestContext) {
  const scene = await openOnPostgres(t, 'acme')
  const spans = async () => {
    const found = await scene.query(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'jobs'::regclass order by 1",
    )
    return found.map(({ name }) => String(name).replace('jobs_', '')).filter((name) => name !== 'default')
  }
  const jobsIn = (span: string) => scene.count(`jobs_${span}`)
  const hasDay = async (ms: number) => (await spans()).includes(day(ms))
  return { ...scene, spans, jobsIn, hasDay, keep: (at: Expiry) => keepPartitions(scene.database, at) }
}

/** Returns a job that was created at this time. */
function jobAt(ms: number, over = {}) {
  return newJob({ id: newJobId(ms), createdAtMs: ms, ...over })
}

const day = (ms: number) => {
  const from = Math.floor(ms / DAY_MS) * DAY_MS
  return `${from / 1000}_${(from + DAY_MS) / 1000}`
}
const week = (nowMs: number) => expiry(nowMs, 7 * DAY_MS)

test('there is a partition for today and for the days to come, and jobs go there', async (t) => {
  const { store, hasDay, jobsIn, keep } = await start(t)
  await keep(week(NOON_MS))
  await keep(week(NOON_MS))
  for (const ahead of [0, 1, 2]) assert.ok(await hasDay(NOON_MS + ahead * DAY_MS))
  await accept(store, [jobAt(NOON_MS), jobAt(NOON_MS + DAY_MS), jobAt(NOON_MS + 30 * DAY_MS)])
  assert.equal(await jobsIn(day(NOON_MS)), 1)
  assert.equal(await jobsIn(day(NOON_MS + DAY_MS)), 1)
  assert.equal(await jobsIn('default'), 1)
})

test('a node starts while a dump of the database keeps an expired partition from being dropped', async (t) => {
  const { client, hasDay, keep, open } = await start(t)
  await keep(week(NOON_MS))
  await client.query('begin; lock table jobs in access share mode')
  const { store, notes } = await open()
  assert.match(notes.join(), /^partitions could not be .* lock timeout/)
  assert.equal((await store.accept(acceptance([newJob()]))).kind, 'accepted')
  await client.query('rollback')
  await store.expire(week(NOON_MS + 60 * DAY_MS))
  assert.equal(await hasDay(NOON_MS), false)
})

test('a day is dropped when all its jobs have expired, with its outcomes, and not before', async (t) => {
  const { store, hasDay, keep } = await start(t)
  await keep(week(NOON_MS))
  const [done, late] = [jobAt(NOON_MS), jobAt(NOON_MS)]
  await accept(store, [done, late], { handedOff: true })
  await settle(store, done, { nowMs: NOON_MS })

  // One of the day's jobs is still running.
  await keep(week(NOON_MS + 60 * DAY_MS))
  assert.ok(await hasDay(NOON_MS))
  for (const ahead of [1, 2]) assert.equal(await hasDay(NOON_MS + ahead * DAY_MS), false)
  // The job finishes so late that it can still be read.
  await settle(store, late, { nowMs: NOON_MS + 60 * DAY_MS })
  await keep(week(NOON_MS + 66 * DAY_MS))
  assert.ok(await hasDay(NOON_MS))
  assert.ok(await store.read('acme', late.id, week(NOON_MS + 66 * DAY_MS)))
  await keep(week(NOON_MS + 67 * DAY_MS + 1))
  assert.equal(await hasDay(NOON_MS), false)
  assert.equal(await store.read('acme', done.id, expiry(NOON_MS, 1e15)), null)
  assert.deepEqual(await store.readEnded([done.id, late.id]), [])
})

test('a day whose callback is still owed stays', async (t) => {
  const { store, hasDay, keep } = await start(t)
  await keep(week(NOON_MS))
  const [job] = await accept(store, [jobAt(NOON_MS, { callback: CALLBACK })], { handedOff: true })
  await settle(store, job, { nowMs: NOON_MS })
  const later = NOON_MS + 60 * DAY_MS
  await keep(week(later))
  assert.ok(await hasDay(NOON_MS))
  await take(store, { nowMs: later })
  await store.recordCallback(record(job.id, 1, DELIVERED, later))
  await keep(week(later))
  assert.equal(await hasDay(NOON_MS), false)
})

test('jobs that came before their partition stay in the default one, and expire row by row', async (t) => {
  const { store, hasDay, jobsIn, keep } = await start(t)
  const stray = jobAt(NOON_MS)
  await accept(store, [stray], { handedOff: true })
  await settle(store, stray, { nowMs: NOON_MS })
  await keep(week(NOON_MS))
  assert.equal(await hasDay(NOON_MS), false)
  assert.ok(await hasDay(NOON_MS + DAY_MS))
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
  const { client, hasDay, keep } = await start(t)
  await keep(week(NOON_MS))
  await client.query(`begin; lock table jobs_${day(NOON_MS)} in access share mode`)
  const later = week(NOON_MS + 60 * DAY_MS)
  await assert.rejects(keep(later), /lock timeout/)
  assert.ok(await hasDay(later.nowMs))
  await client.query('rollback')
  await keep(later)
  assert.equal(await hasDay(NOON_MS), false)
})

test('many nodes that maintain partitions at once do not disturb each other', async (t) => {
  const { hasDay, keep } = await start(t)
  await Promise.all(Array.from({ length: 6 }, () => keep(week(NOON_MS))))
  await keep(week(NOON_MS))
  assert.ok(await hasDay(NOON_MS))
})
