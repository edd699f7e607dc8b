/** Tests the sums of quotas in Postgres: while they are folded, with partitions, and next to nodes of version 0.2. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { freshDatabase } from '../../../test/postgres/database.ts'
import {
  acceptance,
  COMPLETED,
  DAY_MS,
  expiry,
  firstClaim,
  newJob,
  newJobId,
  now,
  restartTime,
  settlement,
} from '../../../test/store-contract/fixtures.ts'
import { openScene } from '../../../test/store-contract/postgres-scene.ts'
import { bytesOf, largeJob, outcomeBytes, requestBytes } from '../../../test/store-contract/quotas.ts'
import { accept, addAccounts, addQueued, settle, storeEnded } from '../../../test/store-contract/steps.ts'
import { SecondVersionNode } from '../../../test/support/second-version-node.ts'
import type { Job } from '../../job/job.ts'
import { keepPartitions } from './partitions.ts'
import { reconcileOpenJobs } from './quotas.ts'
import { migratePostgres } from './schema.ts'

const ENDED_BYTES = outcomeBytes(COMPLETED, '{}')
const week = (nowMs: number) => expiry(nowMs, 7 * DAY_MS)

async function startOld(t: TestContext) {
  restartTime()
  const url = await freshDatabase(t)
  const old = await SecondVersionNode.start(url, 'old')
  t.after(() => old.stop())
  const scene = await openScene(t, url)
  return {
    ...scene,
    old,
    /** Opens a store of this version. */
    openNew: async () => {
      const { store } = await scene.open()
      if (!(await store.hasAccounts())) await addAccounts(store, 'acme', 'other')
      return store
    },
  }
}

/** Returns a job that was created at this time. */
const jobAt = (ms: number): Job => ({ ...largeJob('acme', 1), id: newJobId(ms), createdAtMs: ms })
const NOON_MS = Date.UTC(2026, 5, 1, 12)

const one = (job: Job) => [settlement(firstClaim(job), { node: 'old' })]

test('a database of version 0.2: what is open and stored is counted when it is migrated', async (t) => {
  const { openNew, old } = await startOld(t)
  const [ended, open, queued, atOnce, other] = [0, 1, 2, 3, 4].map((which) =>
    largeJob(which === 4 ? 'other' : 'acme', which),
  ) as [Job, Job, Job, Job, Job]
  await old.accept([ended, open], true)
  await old.accept([queued, other], false)
  await old.settle(one(ended))
  await old.acceptEnded([atOnce], one(atOnce))
  const store = await openNew()
  const bytes = bytesOf([ended, open, queued, atOnce]) + 2 * ENDED_BYTES
  assert.deepEqual(await store.quotaUse('acme'), { openJobs: 2, storedBytes: bytes })
  assert.deepEqual(await store.quotaUse('other'), { openJobs: 1, storedBytes: bytesOf([other]) })
  // The new node settles what the old one accepted before the migration, and the old one continues, too.
  assert.equal(await settle(store, open, { node: 'old' }), 'settled')
  assert.equal(await store.cancelJob(queued.id, now.ms), 'cancelled')
  assert.equal(await old.cancel(other.id, now.ms), true)
  assert.equal((await store.quotaUse('acme')).openJobs, 0)
  assert.equal((await store.quotaUse('other')).openJobs, 0)
  for (const { id } of [ended, open, queued, atOnce, other])
    assert.equal(await store.deleteJob(id), 'deleted')
  for (const account of ['acme', 'other']) {
    assert.deepEqual(await store.quotaUse(account), { openJobs: 0, storedBytes: 0 })
  }
})

test('what an old node ended in the middle of the migration is corrected by the first expiry', async (t) => {
  const { url, openNew, old, query } = await startOld(t)
  const [ended, open] = [largeJob('acme', 1), largeJob('acme', 2)]
  await old.accept([ended, open], true)
  await migratePostgres(url)
  // A node that settles the job between the creation of the trigger and the count of open jobs leaves such sums.
  await query('delete from quota_sums')
  await query(
    "insert into quota_sums select account, hour_of_job(id), 1, request_bytes(id), 0 from open_jobs where id = '" +
      open.id +
      "'",
  )
  await old.settle(one(ended))
  const store = await openNew()
  assert.equal((await store.quotaUse('acme')).openJobs, 0, 'one too few')
  await store.expire(week(now.ms))
  const bytes = bytesOf([ended, open]) + ENDED_BYTES
  assert.deepEqual(await store.quotaUse('acme'), { openJobs: 1, storedBytes: bytes })
})

test('old and new nodes together count each job once, whoever accepts and whoever ends it', async (t) => {
  const { openNew, old, database, count, query } = await startOld(t)
  const store = await openNew()
  await store.expire(week(now.ms))
  const version = fc.constantFrom('old' as const, 'new' as const)
  const life = fc.record({
    accepts: version,
    how: fc.constantFrom('held' as const, 'queued' as const, 'ended' as const),
    ends: version,
    end: fc.constantFrom('settle' as const, 'cancel' as const, 'none' as const),
    size: fc.nat(50),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 20 }), async (lives) => {
      const account = randomBytes(6).toString('hex')
      await addAccounts(store, account)
      const use = { openJobs: 0, storedBytes: 0 }
      for (const { accepts, how, ends, end, size } of lives) {
        const job = largeJob(account, size)
        const [outcome] = one(job)
        assert.ok(outcome)
        use.storedBytes += requestBytes(job)
        if (how === 'ended') {
          use.storedBytes += ENDED_BYTES
          if (accepts === 'old') await old.acceptEnded([job], [outcome])
          else await storeEnded(store, job, outcome)
          continue
        }
        use.openJobs += 1
        if (accepts === 'old') await old.accept([job], how === 'held')
        else await store.accept(acceptance([job], { node: 'old', handedOff: how === 'held' }))
        if (end === 'none' || (end === 'settle' && how === 'queued')) continue
        use.openJobs -= 1
        if (end === 'settle') {
          use.storedBytes += ENDED_BYTES
          if (ends === 'old') assert.deepEqual(await old.settle([outcome]), [true])
          else assert.equal(await store.settle(outcome), 'settled')
        } else if (ends === 'old') assert.equal(await old.cancel(job.id, now.ms), true)
        else assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
      }
      const seen = await store.quotaUse(account)
      assert.equal(seen.openJobs, use.openJobs)
      // The database counts the texts itself, because cancelled jobs have other texts than settled ones.
      const [row] = await query(`
        select (select coalesce(sum(request_bytes(id)), 0) from jobs where account = '${account}')
          + (select coalesce(sum(coalesce(octet_length(content), 0) + coalesce(octet_length(error), 0) + octet_length(receipt)), 0)
             from outcomes where id in (select id from jobs where account = '${account}')) as bytes`)
      assert.equal(seen.storedBytes, Number(row?.bytes))
      assert.ok(seen.storedBytes >= use.storedBytes)
    }),
    { numRuns: 15 },
  )
  const before = await count('quota_deltas')
  await reconcileOpenJobs(database)
  assert.equal(await count('quota_deltas'), before, 'nothing to correct')
})

test('the sums of a day go with its partition, also when an old node drops it', async (t) => {
  const { openNew, old, count, database, query } = await startOld(t)
  const store = await openNew()
  const days = [0, 1, 2].map((day) => NOON_MS + day * DAY_MS)
  await keepPartitions(database, week(NOON_MS))
  const jobs = days.map(jobAt) as [Job, Job, Job]
  for (const job of jobs) await accept(store, [job], { handedOff: true })
  for (const job of jobs) await settle(store, job, { nowMs: NOON_MS })
  const expected = (left: readonly Job[]) => ({
    openJobs: 0,
    storedBytes: bytesOf(left) + left.length * ENDED_BYTES,
  })
  assert.deepEqual(await store.quotaUse('acme'), expected(jobs))
  await store.expire(week(NOON_MS))
  assert.equal(await count('quota_deltas'), 0)

  await keepPartitions(database, week(NOON_MS + 8 * DAY_MS))
  assert.deepEqual(await store.quotaUse('acme'), expected(jobs.slice(1)))
  const day = Math.floor((days[1] ?? 0) / DAY_MS) * 86_400
  await old.dropPartitions(day, day + 86_400)
  await keepPartitions(database, week(NOON_MS + 9 * DAY_MS))
  assert.deepEqual(await store.quotaUse('acme'), expected(jobs.slice(2)))
  assert.equal((await query('select hour from quota_sums')).length, 1)
})

test('the last old job of an hour is deleted, and nothing is subtracted twice when its hour is forgotten', async (t) => {
  const { openNew, database } = await startOld(t)
  const store = await openNew()
  // No partition is so old.
  const LONG_AGO_MS = NOON_MS - 20 * DAY_MS
  const [gone, young] = [jobAt(LONG_AGO_MS), jobAt(NOON_MS)]
  for (const job of [gone, young]) {
    await accept(store, [job], { handedOff: true })
    await settle(store, job, { nowMs: NOON_MS })
  }
  await store.expire(week(LONG_AGO_MS))
  // The sums include the bytes of the deleted job, and a delta that subtracts them is not folded yet.
  await store.deleteJob(gone.id)
  await keepPartitions(database, week(NOON_MS))
  assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes: bytesOf([young]) + ENDED_BYTES })
})

test('wrong sums of open jobs are corrected, and so is what the jobs reserve', async (t) => {
  const { openNew, database, query } = await startOld(t)
  const store = await openNew()
  const job = await addQueued(store, { reserved: 50 })
  const right = await store.quotaUse('acme')
  const hour = Math.floor(job.createdAtMs / 3_600_000)
  for (const [account, wrong] of [
    ['acme', '2, 30, 0, 70'],
    ['other', '0, 0, 0, 5'],
  ]) {
    await query(
      `insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes, reserved) values ('${account}', ${hour}, ${wrong})`,
    )
  }
  assert.deepEqual(
    [(await store.quotaUse('acme')).reserved, (await store.quotaUse('other')).reserved],
    [120, 5],
  )
  await reconcileOpenJobs(database)
  assert.deepEqual(await store.quotaUse('acme'), right)
  assert.equal((await store.quotaUse('other')).reserved ?? 0, 0)
  // Negative sums of jobs do not hide the bytes of files.
  await query(
    `insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes, reserved) values ('other', ${hour}, 0, 0, -1000, 0)`,
  )
  const file = { id: newJob().id, account: 'other', createdAtMs: now.ms }
  assert.equal(await store.beginFile(file, 1), true)
  assert.equal(await store.appendToFile(file.id, 0, new Uint8Array(10), now.ms), true)
  assert.equal((await store.quotaUse('other')).storedBytes, 10)
})
