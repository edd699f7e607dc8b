/** Deletes what is stored of ended jobs, and of whole accounts, in Postgres. */
import { setTimeout as pause } from 'node:timers/promises'
import { isJobId } from '../../job/job-id.ts'
import type { AccountDeleted, AdminActionStore } from '../admin-action-store.ts'
import { hasExpired } from '../job-rows.ts'
import type { OwnJobStore } from '../own-job-store.ts'
import { numberOf, numberOrNull, type Row, textOf } from '../rows.ts'
import type { Database, Queries, Statement } from './database.ts'
import { ALLOW_BITMAPS, LONGEST_TTL_MS } from './partitions.ts'
import type { PostgresParts } from './parts.ts'
import { DELETE_WITH_SUMS } from './quotas.ts'
import { LOCK_USAGE } from './usage.ts'

/** A node's transaction that is idle for longer is ended (`database.ts`). */
const MAX_WRITER_MS = 15_000
const WRITER_PAUSE_MS = 20
/** Jobs that one step looks at. */
const STEP = 2000

export function deleteOperations(
  database: Database,
): Pick<AdminActionStore, 'deleteJob' | 'deleteJobsOf' | 'deleteAccount'> {
  return {
    deleteJob: async (jobId) => {
      if (!isJobId(jobId)) return 'unknown'
      return database.transaction(async (queries) => {
        const rows = await queries.query(FIND_JOB, [jobId])
        if (rows.length === 0) return 'unknown'
        return (await deleteEnded(queries, rows)) > 0 ? 'deleted' : 'not ended'
      })
    },

    deleteJobsOf: (account, afterJobId) =>
      database.transaction(async (queries) => {
        const rows = await queries.query(NEXT_JOBS, [account, afterJobId])
        const [first = {}] = rows
        const ofAccount = rows.filter((row) => row.id !== null)
        const deleted = await deleteEnded(queries, ofAccount)
        const isLast = numberOf(first, 'scanned') < STEP
        return { deleted, open: ofAccount.length - deleted, next: isLast ? null : textOf(first, 'last_id') }
      }),

    deleteAccount: async (account) => {
      const deleted = await database.transaction(async ({ query }): Promise<AccountDeleted> => {
        const open = await query(HAS_OPEN_JOBS, [account])
        if (open.length > 0) return 'has open jobs'
        const found = await query(DELETE_ACCOUNT, [account])
        await query(LOCK_USAGE)
        for (const statement of DELETE_OF_ACCOUNT) await query(statement, [account])
        return found.length > 0 ? 'deleted' : 'unknown'
      })
      if (deleted !== 'deleted') return deleted
      await writersEnded(database)
      const late = await database.query(HAS_OPEN_JOBS, [account])
      return late.length > 0 ? 'has open jobs' : 'deleted'
    },
  }
}

/**
 * Resolves when every transaction that was storing jobs has ended: one that began before an account was deleted does not see
 * that, and may still store a job of it. Waits no longer than the server allows a transaction to be idle.
 */
async function writersEnded(database: Database): Promise<void> {
  const transactions = (rows: readonly Row[]) => rows.map((row) => textOf(row, 'virtualtransaction'))
  let writers = new Set(transactions(await database.query(WRITERS)))
  for (let waitedMs = 0; writers.size > 0 && waitedMs < MAX_WRITER_MS; waitedMs += WRITER_PAUSE_MS) {
    await pause(WRITER_PAUSE_MS)
    writers = writers.intersection(new Set(transactions(await database.query(WRITERS))))
  }
}

export function ownDeleteOperations({ database }: PostgresParts): Pick<OwnJobStore, 'deleteOwnJob'> {
  return {
    deleteOwnJob: async ({ account, jobId, dropCallback, expiry }) => {
      if (!isJobId(jobId)) return 'unknown'
      return database.transaction(async (queries) => {
        const [job] = await queries.query(FIND_OWN, [jobId, account])
        if (!job || hasExpired(job, expiry)) return 'unknown'
        if (job.settled_at_ms === null) return 'not ended'
        if (job.due_at_ms !== null && !dropCallback) return 'callback owed'
        await deleteEnded(queries, [job])
        return 'deleted'
      })
    },
  }
}

/** @param rows of jobs, with the times of their outcomes, if they have one; returns how many were deleted */
async function deleteEnded({ query }: Queries, rows: readonly Row[]): Promise<number> {
  const ended = rows.filter((row) => row.settled_at_ms !== null)
  if (ended.length === 0) return 0
  const ids = ended.map((row) => row.id)
  await query(DELETE_JOBS, [ids])
  // Cached responses are found by when they expire: no later than the longest time after their job did.
  const times = ended.flatMap((row) => {
    const settledAtMs = numberOf(row, 'settled_at_ms')
    return [settledAtMs, numberOrNull(row, 'claimed_at_ms') ?? settledAtMs]
  })
  await query(ALLOW_BITMAPS)
  await query(DELETE_RESPONSES, [
    ids,
    Math.min(...times) - CLOCK_SLACK_MS,
    Math.max(...times) + LONGEST_TTL_MS + CLOCK_SLACK_MS,
  ])
  return ended.length
}

/** A job's times come from the clock of one node, which may have been set meanwhile. */
const CLOCK_SLACK_MS = 600_000

const TIMES = `left join lateral (select settled_at_ms, claimed_at_ms from outcomes where id = j.id limit 1) o on true`

const FIND_JOB: Statement = {
  name: 'find job to delete',
  text: `select j.id, o.settled_at_ms, o.claimed_at_ms from jobs j ${TIMES} where j.id = $1::uuid`,
}
const FIND_OWN: Statement = {
  name: 'find own job to delete',
  text: `select j.id, j.cache_ttl_s, o.settled_at_ms, o.claimed_at_ms, c.due_at_ms from jobs j ${TIMES}
    left join lateral (select due_at_ms from callbacks where job_id = j.id limit 1) c on true
    where j.id = $1::uuid and j.account = $2`,
}
/** $1 account, $2 after which job. A row without an id only reports what was scanned. */
const NEXT_JOBS: Statement = {
  name: 'scan jobs to delete',
  text: `
  with scanned as materialized (
    select id, account from jobs where id > $2::uuid order by id limit ${STEP}
  ),
  of_account as (
    select j.id, o.settled_at_ms, o.claimed_at_ms from scanned j ${TIMES} where j.account = $1
  )
  select (select count(*) from scanned) as scanned, (select id from scanned order by id desc limit 1) as last_id, m.*
  from (select 1) one left join of_account m on true`,
}
/** Reports of cancellations stay: their nodes take them, and then stop running these jobs. */
const DELETE_JOBS: Statement = {
  name: 'delete ended jobs',
  text: `
  with ${DELETE_WITH_SUMS},
  callbacks_deleted as (delete from callbacks where job_id = any ($1::uuid[]))
  select 1`,
}
/** There is no index by job; between these times there is at most one more hour of responses than those of the jobs. */
const DELETE_RESPONSES: Statement = {
  name: 'delete responses of jobs',
  text: `delete from kept_answers
    where until_ms >= $2::bigint and until_ms <= $3::bigint and job_id = any ($1::uuid[])`,
}
const HAS_OPEN_JOBS: Statement = {
  repeatable: true,
  name: 'account has open jobs',
  text: 'select 1 from open_jobs where account = $1 limit 1',
}
/** A statement takes this lock before it takes its snapshot, and its transaction keeps it until it has ended. */
const WRITERS: Statement = {
  repeatable: true,
  name: 'transactions that write jobs',
  text: `select virtualtransaction from pg_locks
    where locktype = 'relation' and relation = 'jobs'::regclass and mode = 'RowExclusiveLock' and granted
      and database = (select oid from pg_database where datname = current_database())`,
}
const DELETE_ACCOUNT: Statement = {
  name: 'delete account',
  text: 'delete from accounts where name = $1 returning name',
}
/** Its callbacks went with its jobs; one that is owed without either would be taken again and again. */
const DELETE_OF_ACCOUNT: readonly Statement[] = [
  ['keys', 'account = $1'],
  ['idempotency', 'account = $1'],
  ['usage', 'account = $1'],
  ['usage_deltas', 'account = $1'],
  ['quota_sums', 'account = $1'],
  ['quota_deltas', 'account = $1'],
  ['callbacks', 'account = $1 and due_at_ms is not null'],
].map(([table, condition]) => ({
  name: `delete account's ${table}`,
  text: `delete from ${table} where ${condition}`,
}))
