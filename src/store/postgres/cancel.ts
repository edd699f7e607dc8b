/** Cancels jobs in Postgres, and reports them to the nodes that hold them or have pending responses for them. */
import type { Usage } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import { CANCELLED_RECEIPT_JSON, pricedUsageJson } from '../../job/results-without-call.ts'
import { MAX_CANCELLED, type NodeStore } from '../node-store.ts'
import type { CancelledOutcome } from '../operator-store.ts'
import { numberOf, textOf } from '../rows.ts'
import { raw, type Sql, type Steps, sql } from '../sql.ts'
import { outcomeBytes } from '../stored-bytes.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import type { Database, Statement } from './database.ts'
import { openBytesOf, QUOTA_COLUMNS } from './quotas.ts'

/** Reports of cancelled jobs are deleted after this time, because a node that has not read them by then is dead. */
const REPORTED_WITHIN_MS = 3_600_000

/**
 * Every write of a node that holds a job requires the job's row in `open_jobs`, so that node cannot settle a cancelled job. No
 * node settled the job, so `outcomes.node` stores who cancelled it.
 */
export function* cancel(condition: Sql, outcome: CancelledOutcome): Steps<number> {
  const { by, errorJson, usageJson, nowMs } = outcome
  const at = Math.floor(nowMs)
  const bytes = outcomeBytes(null, errorJson, CANCELLED_RECEIPT_JSON)
  const usage: Usage = JSON.parse(usageJson)
  const [row = {}] = yield sql`
  with freed as (
    delete from open_jobs o where ${condition}
    returning o.id, o.account, o.has_callback, o.attempt, o.deaths, o.claimed_at_ms, o.node, o.origin, o.reserved,
      ${raw(openBytesOf('o'))} as bytes
  ),
  written as (
    insert into outcomes (id, status, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted, bytes)
    select id, 'failed', ${errorJson}, case when reserved is null then ${usageJson} else ${pricedUsageJson(usageJson)} end, ${CANCELLED_RECEIPT_JSON}, ${by}, attempt, deaths, claimed_at_ms, ${at}::bigint, true, bytes + ${bytes}::bigint from freed
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, ${at}::bigint, ${at}::bigint from freed where has_callback
  ),
  counted as (
    insert into usage_deltas (${raw(USAGE_COLUMNS)})
    select f.account, ${monthOf(at)}, j.model, count(*), count(*), 0, count(*) * ${usage.calls}::bigint,
      count(*) * ${usage.input_tokens}::numeric, count(*) * ${usage.output_tokens}::numeric,
      sum(coalesce(${usage.cost ?? null}::numeric, case when reserved is not null then 0 end))
    from freed f cross join lateral (select model from jobs where id = f.id limit 1) j group by f.account, j.model
  ),
  counted_ended as (
    insert into quota_deltas (${raw(QUOTA_COLUMNS)})
    select account, hour_of_job(id), -count(*), -sum(bytes), sum(bytes + ${bytes}::bigint), -sum(coalesce(reserved, 0)) from freed group by 1, 2
  ),
  reported as (
    insert into cancelled_jobs (node, job_id, attempt, at_ms)
    select node, id, attempt, ${at}::bigint from freed where node is not null
    union all
    select origin, id, attempt, ${at}::bigint from freed where origin is not null and origin is distinct from node
    on conflict (node, job_id) do nothing
  )
  select count(*) as cancelled from freed`
  return numberOf(row, 'cancelled')
}

export function cancelledOperations(database: Database): Pick<NodeStore, 'takeCancelled'> {
  return {
    takeCancelled: async (node) => {
      const rows = await database.query(TAKE_CANCELLED, [node])
      return rows.map((row) => ({ jobId: textOf(row, 'job_id'), attempt: numberOf(row, 'attempt') }))
    },
  }
}

export async function forgetCancelled(database: Database, nowMs: number): Promise<void> {
  await database.query(FORGET, [Math.floor(nowMs - REPORTED_WITHIN_MS)])
}

/**
 * The subquery uses the primary key `(node, job_id)`, so it is cheap: every node runs it often and usually finds nothing.
 * DELETE has no LIMIT, hence `ctid`.
 */
const TAKE_CANCELLED: Statement = {
  name: 'take cancelled',
  text: `delete from cancelled_jobs where ctid = any (array (
      select ctid from cancelled_jobs where node = $1 limit ${MAX_CANCELLED}
    )) returning job_id, attempt`,
}
const FORGET: Statement = {
  repeatable: true,
  name: 'forget cancelled',
  text: 'delete from cancelled_jobs where at_ms < $1::bigint',
}
