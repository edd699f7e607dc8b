/**
 * The usage of accounts in Postgres, and what they have open and stored. Writes only insert rows with differences (deltas), so
 * that no two statements wait for each other; `expire` adds (folds) the deltas to the sums. Quotas are summed by account and by
 * the hour in the ID of the job, so that the sums of an hour can be deleted with the partition of its jobs.
 */
import { raw, type Sql, sql } from '../sql.ts'
import { outcomeBytesOf, requestBytesOf } from '../stored-bytes.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import type { Database, Queries, Statement } from './database.ts'

const STEP = 10_000

export const QUOTA_COLUMNS = 'account, hour, open_jobs, open_bytes, ended_bytes, reserved'

/** Nodes of version 0.2 do not store the bytes in the row, so these are computed for their jobs. */
export const openBytesOf = (row: string) =>
  `case when ${row}.bytes >= 0 then ${row}.bytes else coalesce(request_bytes(${row}.id), 0) end`

/**
 * Of concurrent statements, only the one that deletes a job subtracts its stored bytes. Outcomes and callbacks are deleted with
 * the jobs.
 */
export const deleteRows = (ids: readonly string[]): Sql => sql`
  with deleted_jobs as (
    delete from jobs j where j.id = any (${ids}::uuid[]) returning j.id, j.account, ${raw(requestBytesOf('j'))} as bytes
  ),
  deleted_outcomes as (
    delete from outcomes o where o.id = any (${ids}::uuid[])
    returning o.id, case when o.bytes >= 0 then o.bytes end as all_bytes, ${raw(outcomeBytesOf('o'))} as bytes
  ),
  callbacks_deleted as (
    delete from callbacks where job_id = any (${ids}::uuid[])
  )
  insert into quota_deltas (${raw(QUOTA_COLUMNS)})
  select j.account, hour_of_job(j.id), 0, 0, -sum(coalesce(o.all_bytes, j.bytes + o.bytes)), 0
  from deleted_jobs j join deleted_outcomes o on o.id = j.id group by 1, 2`

/** Does nothing while another node is folding. Returns whether there may be more deltas. */
export const foldUsage = (database: Database) => fold(database, FOLD_USAGE)
export const foldQuotas = (database: Database) => fold(database, FOLD_QUOTAS)

async function fold(database: Database, statement: Statement): Promise<boolean> {
  const [row] = await database.query(statement)
  return Number(row?.folded) >= STEP
}

const USAGE_LOCK = `hashtextextended('usage of ' || current_schema(), 0)`

/** No node folds deltas while a transaction has this lock. */
export const LOCK_USAGE: Statement = {
  name: 'lock usage',
  text: `select pg_advisory_xact_lock(${USAGE_LOCK})`,
}

/**
 * $1 the account that is being deleted. Its sums of an hour stay while it has jobs of that hour, because the deletion of those
 * jobs subtracts from them. Sums and deltas are deleted in one snapshot.
 */
export const FORGET_QUOTAS: Statement = {
  name: 'forget quotas of account',
  text: `
  with empty as (
    select hour from (
      select hour, open_jobs, open_bytes, ended_bytes from quota_sums where account = $1
      union all select hour, open_jobs, open_bytes, ended_bytes from quota_deltas where account = $1
    ) h
    group by hour having sum(open_jobs) = 0 and sum(open_bytes) = 0 and sum(ended_bytes) = 0
  ),
  deltas as (delete from quota_deltas where account = $1 and hour in (select hour from empty))
  delete from quota_sums where account = $1 and hour in (select hour from empty)`,
}

/**
 * The sums may be wrong: triggers count open jobs for nodes of version 0.2, but miss jobs that such a node settled while the
 * triggers were being created.
 */
export async function reconcileOpenJobs(database: Database): Promise<void> {
  await database.transaction(async ({ query }) => {
    // With this lock, nothing is corrected twice: later statements see what an earlier correction wrote.
    await query(LOCK_USAGE)
    await query(ALLOW_SCANS)
    await query(RECONCILE)
  })
}

/** The partition of these hours is dropped in the same transaction. */
export async function forgetHours({ query }: Queries, fromMs: number, toMs: number): Promise<void> {
  // Folding at the same time could restore the deleted sums.
  await query(LOCK_USAGE)
  for (const table of ['quota_sums', 'quota_deltas']) {
    await query(FORGET_HOURS(table), [fromMs / HOUR_MS, toMs / HOUR_MS])
  }
}

/** Hours without jobs are left if a node of version 0.2 has dropped their partition or deleted their last job. */
export async function forgetEmptyHours({ query }: Queries, beforeMs: number): Promise<void> {
  // Folding at the same time could restore the deleted sums.
  await query(LOCK_USAGE)
  await query(FORGET_EMPTY_HOURS, [Math.floor(beforeMs / HOUR_MS)])
}

const HOUR_MS = 3_600_000

const goneFrom = (deltas: string, columns: string) => `
  turn as materialized (
    select pg_try_advisory_xact_lock(${USAGE_LOCK}) as mine
  ),
  gone as (
    delete from ${deltas} where ctid = any (array (
      select ctid from ${deltas} where (select mine from turn) limit ${STEP}
    )) returning ${columns}
  )`

/**
 * One statement moves the deltas, so that readers see each of them exactly once. Even two concurrent statements move each delta
 * once, because only one of them deletes it. Rows are locked in the order of the key, so that two statements cannot deadlock.
 */
const FOLD_USAGE: Statement = {
  repeatable: true,
  name: 'fold usage',
  text: `
  with ${goneFrom('usage_deltas', USAGE_COLUMNS)},
  folded as (
    insert into usage as u (${USAGE_COLUMNS})
    select account, month, model, sum(jobs), sum(failed_jobs), sum(cache_hits), sum(calls), sum(input_tokens),
      sum(output_tokens), sum(cost)
    from gone group by account, month, model order by account, month, model
    on conflict (account, month, model) do update set
      jobs = u.jobs + excluded.jobs, failed_jobs = u.failed_jobs + excluded.failed_jobs,
      cache_hits = u.cache_hits + excluded.cache_hits, calls = u.calls + excluded.calls,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost = case when excluded.cost is null then u.cost else coalesce(u.cost, 0) + excluded.cost end
  )
  select count(*) as folded from gone`,
}
const FOLD_QUOTAS: Statement = {
  repeatable: true,
  name: 'fold quotas',
  text: `
  with ${goneFrom('quota_deltas', QUOTA_COLUMNS)},
  folded as (
    insert into quota_sums as q (${QUOTA_COLUMNS})
    select account, hour, sum(open_jobs), sum(open_bytes), sum(ended_bytes), sum(reserved)
    from gone group by account, hour order by account, hour
    on conflict (account, hour) do update set open_jobs = q.open_jobs + excluded.open_jobs,
      open_bytes = q.open_bytes + excluded.open_bytes, ended_bytes = q.ended_bytes + excluded.ended_bytes,
      reserved = q.reserved + excluded.reserved
  )
  select count(*) as folded from gone`,
}

/** Sequential scans are disabled (database.ts), but this correction reads all rows. */
const ALLOW_SCANS: Statement = { name: '', text: 'set local enable_seqscan = on' }

/** In one snapshot, a job that is being accepted or settled is in jobs, sums and deltas, or in none of them. */
const RECONCILE: Statement = {
  name: 'reconcile open jobs',
  text: `
  insert into quota_deltas (${QUOTA_COLUMNS})
  select account, hour, coalesce(o.jobs, 0) - coalesce(q.jobs, 0), coalesce(o.bytes, 0) - coalesce(q.bytes, 0), 0,
    coalesce(o.reserved, 0) - coalesce(q.reserved, 0)
  from (
    select o.account, hour_of_job(o.id) as hour, count(*) as jobs, sum(${openBytesOf('o')}) as bytes,
      sum(coalesce(o.reserved, 0)) as reserved
    from open_jobs o group by 1, 2
  ) o full join (
    select account, hour, sum(open_jobs) as jobs, sum(open_bytes) as bytes, sum(reserved) as reserved
    from (select ${QUOTA_COLUMNS} from quota_sums union all select ${QUOTA_COLUMNS} from quota_deltas) both_tables
    group by account, hour having sum(open_jobs) <> 0 or sum(open_bytes) <> 0 or sum(reserved) <> 0
  ) q using (account, hour)
  where (o.jobs, o.bytes, o.reserved) is distinct from (q.jobs, q.bytes, q.reserved)`,
}

const FORGET_HOURS = (table: string): Statement => ({
  name: `forget hours in ${table}`,
  text: `delete from ${table} where hour >= $1::bigint and hour < $2::bigint`,
})

/**
 * $1 the hour before which all jobs may have expired. Sums and deltas are deleted in one snapshot. Otherwise the delta of a job
 * that was just deleted could remain without its sum.
 */
const FORGET_EMPTY_HOURS: Statement = {
  name: 'forget empty hours',
  text: `
  with empty as (
    select hour from (
      select hour from quota_sums where hour < $1::bigint union select hour from quota_deltas where hour < $1::bigint
    ) h
    where not exists (
      select 1 from jobs where id >= first_id_of_hour(h.hour) and id < first_id_of_hour(h.hour + 1)
    )
  ),
  deltas as (delete from quota_deltas where hour in (select hour from empty))
  delete from quota_sums where hour in (select hour from empty)`,
}
