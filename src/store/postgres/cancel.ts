/** Ends jobs before their time, in Postgres: an outcome like any other, whoever holds the job. */
import { isJobId } from '../../job/job-id.ts'
import { monthOf } from '../../job/month.ts'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
  type CancelJobs,
  type Cancelled,
} from '../admin-action-store.ts'
import type { Claim } from '../node-store.ts'
import type { Database, Statement } from './database.ts'
import { USAGE_COLUMNS } from './usage.ts'

/** Who is named for outcomes that no node settled; no node has that name. */
const OPERATOR = 'operator'
/** Jobs that a node is told of at once. */
const MOST_TOLD = 1000
/** A node that has not asked for so long is dead. */
const TOLD_WITHIN_MS = 3_600_000

export async function cancelJob(database: Database, jobId: string, nowMs: number): Promise<Cancelled> {
  if (!isJobId(jobId)) return 'unknown'
  const [row] = await database.query(CANCEL_ONE, [...common(nowMs), jobId])
  if (Number(row?.cancelled) > 0) return 'cancelled'
  return row?.there ? 'ended before' : 'unknown'
}

/** Picks until it finds none: a job that is claimed or ends meanwhile does not make it stop before the end. */
export async function cancelJobs(database: Database, which: CancelJobs): Promise<number> {
  const { account, running, beforeJobId, limit, nowMs } = which
  let total = 0
  while (total < limit) {
    const values = [...common(nowMs), account, running, beforeJobId, limit - total]
    const [row] = await database.query(CANCEL_SOME, values)
    total += Number(row?.cancelled)
    if (Number(row?.picked) === 0) break
  }
  return total
}

export async function takeCancelled(database: Database, node: string): Promise<Claim[]> {
  const rows = await database.query(TAKE, [node])
  return rows.map(({ job_id, attempt }) => ({ jobId: String(job_id), attempt: Number(attempt) }))
}

/** Forgets what nobody asked for. */
export async function forgetCancelled(database: Database, nowMs: number): Promise<void> {
  await database.query(FORGET, [Math.floor(nowMs - TOLD_WITHIN_MS)])
}

function common(nowMs: number): unknown[] {
  const at = Math.floor(nowMs)
  return [at, monthOf(at), OPERATOR, CANCELLED_ERROR_JSON, CANCELLED_USAGE_JSON, CANCELLED_RECEIPT_JSON]
}

/**
 * $1 now, $2 month, $3 who, $4 error, $5 usage, $6 receipt. Whoever holds the job finds it gone when it settles: the fence
 * of all writes is its row in `open_jobs`.
 * @param which condition of `open_jobs o`
 */
const end = (which: string) => `
  freed as (
    delete from open_jobs o where ${which}
    returning o.id, o.account, o.has_callback, o.attempt, o.deaths, o.claimed_at_ms, o.node, o.origin
  ),
  written as (
    insert into outcomes (id, status, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted)
    select id, 'failed', $4, $5, $6, $3, attempt, deaths, claimed_at_ms, $1::bigint, true from freed
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, $1::bigint, $1::bigint from freed where has_callback
  ),
  counted as (
    insert into usage_deltas (${USAGE_COLUMNS})
    select f.account, $2, j.model, count(*), count(*), 0, 0, 0, 0
    from freed f cross join lateral (select model from jobs where id = f.id limit 1) j group by f.account, j.model
  ),
  told as (
    insert into cancelled_jobs (node, job_id, attempt, at_ms)
    select node, id, attempt, $1::bigint from freed where node is not null
    union all
    select origin, id, attempt, $1::bigint from freed where origin is not null and origin is distinct from node
    on conflict (node, job_id) do nothing
  )`

/** $7 the job. */
const CANCEL_ONE = {
  name: 'cancel job',
  text: `with ${end('o.id = $7::uuid')}
  select (select count(*) from freed) as cancelled, exists (select 1 from jobs where id = $7::uuid) as there`,
}

/**
 * $7 account, $8 whether those that run, too, $9 before which job, $10 limit. What was picked may be claimed or given back
 * before its row is locked, and is looked at again then.
 */
const CANCEL_SOME = {
  name: 'cancel jobs',
  text: `
  with waiting as materialized (
    select id from open_jobs where account = $7 and turn is not null and id < $9::uuid
    order by turn limit $10::bigint
  ),
  held as materialized (
    select id from open_jobs where $8::boolean and node is not null and account = $7 and id < $9::uuid
    order by id limit $10::bigint
  ),
  picked as materialized (
    select id from waiting union all select id from held limit $10::bigint
  ),
  ${end('o.id = any (array (select id from picked)) and (o.turn is not null or $8::boolean)')}
  select (select count(*) from freed) as cancelled, (select count(*) from picked) as picked`,
}

/** Asked often by every node, and mostly for nothing: a look into the primary key. */
const TAKE: Statement = {
  name: 'take cancelled',
  text: `delete from cancelled_jobs where ctid = any (array (
      select ctid from cancelled_jobs where node = $1 limit ${MOST_TOLD}
    )) returning job_id, attempt`,
}
const FORGET: Statement = {
  repeatable: true,
  name: 'forget cancelled',
  text: 'delete from cancelled_jobs where at_ms < $1::bigint',
}
