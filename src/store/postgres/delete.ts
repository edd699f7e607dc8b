/** Deletes what was stored of ended jobs, and of whole accounts, in Postgres. */
import pg from 'pg'
import { isJobId } from '../../job/job-id.ts'
import type { Deleted, DeletedJobs } from '../admin-action-store.ts'
import { connectionSettings, type Database, type Queries, type Row, type Statement } from './database.ts'
import { meaningOf } from './errors.ts'
import { ALLOW_BITMAPS, LONGEST_TTL_MS } from './partitions.ts'
import { LOCK_USAGE } from './usage.ts'

/** Jobs that one step looks at. */
const SLICE_ROWS = 2000

export function deleteJob(database: Database, jobId: string): Promise<Deleted> {
  if (!isJobId(jobId)) return Promise.resolve('unknown')
  return database.transaction(async (queries) => {
    const rows = await queries.query(LOOK_AT_ONE, [jobId])
    if (rows.length === 0) return 'unknown'
    return (await deleteEnded(queries, rows)) > 0 ? 'deleted' : 'not ended'
  })
}

export function deleteJobsOf(database: Database, account: string, afterJobId: string): Promise<DeletedJobs> {
  return database.transaction(async (queries) => {
    const rows = await queries.query(LOOK, [account, afterJobId])
    const [first] = rows
    const mine = rows.filter(({ id }) => id !== null)
    const deleted = await deleteEnded(queries, mine)
    const isLast = Number(first?.looked) < SLICE_ROWS
    return { deleted, open: mine.length - deleted, next: isLast ? null : String(first?.last_id) }
  })
}

/** @param rows of jobs, with when they began and ended; returns how many of them had ended */
async function deleteEnded({ query }: Queries, rows: readonly Row[]): Promise<number> {
  const ended = rows.filter(({ settled_at_ms }) => settled_at_ms !== null)
  if (ended.length === 0) return 0
  const ids = ended.map(({ id }) => id)
  await query(DELETE_JOBS, [ids])
  // Kept answers are found by when they end: no later than the longest time after their job did.
  const times = ended.flatMap((row) => [
    Number(row.settled_at_ms),
    Number(row.claimed_at_ms ?? row.settled_at_ms),
  ])
  await query(ALLOW_BITMAPS)
  await query(DELETE_ANSWERS, [
    ids,
    Math.min(...times) - CLOCK_SLACK_MS,
    Math.max(...times) + LONGEST_TTL_MS + CLOCK_SLACK_MS,
  ])
  return ended.length
}

/** A job's times come from the clock of one node, which may have been set meanwhile. */
const CLOCK_SLACK_MS = 600_000

export function deleteAccount(database: Database, account: string): Promise<boolean> {
  return database.transaction(async ({ query }) => {
    const found = await query(DELETE_ACCOUNT, [account])
    await query(LOCK_USAGE)
    for (const statement of DELETE_REST) await query(statement, [account])
    return found.length > 0
  })
}

/**
 * On a connection of its own: it is no part of a transaction, and takes as long as it takes. Tables that the role does not
 * own are left to autovacuum.
 */
export async function scrub(url: string): Promise<void> {
  const client = new pg.Client(connectionSettings(url, null))
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(`vacuum ${DELETED_FROM.join(', ')}`)
  } catch (error) {
    throw meaningOf(error)
  } finally {
    await client.end()
  }
}

const DELETED_FROM = [
  'jobs',
  'outcomes',
  'callbacks',
  'kept_answers',
  'cancelled_jobs',
  'accounts',
  'keys',
  'idempotency',
  'usage',
  'usage_deltas',
]

const TIMES = `left join lateral (select settled_at_ms, claimed_at_ms from outcomes where id = j.id limit 1) o on true`

const LOOK_AT_ONE: Statement = {
  name: 'look at job to delete',
  text: `select j.id, o.settled_at_ms, o.claimed_at_ms from jobs j ${TIMES} where j.id = $1::uuid`,
}
/** $1 account, $2 after which job. A row without an id says only what was looked at. */
const LOOK: Statement = {
  name: 'look at jobs to delete',
  text: `
  with looked as materialized (
    select id, account from jobs where id > $2::uuid order by id limit ${SLICE_ROWS}
  ),
  mine as (
    select j.id, o.settled_at_ms, o.claimed_at_ms from looked j ${TIMES} where j.account = $1
  )
  select (select count(*) from looked) as looked, (select id from looked order by id desc limit 1) as last_id, m.*
  from (select 1) one left join mine m on true`,
}
const DELETE_JOBS: Statement = {
  name: 'delete ended jobs',
  text: `
  with gone as (delete from jobs where id = any ($1::uuid[])),
  told as (delete from callbacks where job_id = any ($1::uuid[])),
  cancelled as (
    delete from cancelled_jobs where job_id = any ($1::uuid[])
  )
  delete from outcomes where id = any ($1::uuid[])`,
}
/** There is no index by job; between these times there is at most an hour of answers more than those of the jobs. */
const DELETE_ANSWERS: Statement = {
  name: 'delete answers of jobs',
  text: `delete from kept_answers
    where until_ms >= $2::bigint and until_ms <= $3::bigint and job_id = any ($1::uuid[])`,
}
const DELETE_ACCOUNT: Statement = {
  name: 'delete account',
  text: 'delete from accounts where name = $1 returning name',
}
/** Its callbacks went with its jobs; one that is owed without either would be taken in vain for ever. */
const DELETE_REST: readonly Statement[] = [
  ['keys', 'account = $1'],
  ['idempotency', 'account = $1'],
  ['usage', 'account = $1'],
  ['usage_deltas', 'account = $1'],
  ['callbacks', 'account = $1 and due_at_ms is not null'],
].map(([table, condition]) => ({
  name: `delete account's ${table}`,
  text: `delete from ${table} where ${condition}`,
}))
