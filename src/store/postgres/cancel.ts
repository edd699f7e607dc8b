/** Cancels jobs in Postgres: an outcome like any other, whichever node holds the job. */
import { cancelledErrorJson } from '../../job/cancelled.ts'
import { isJobId } from '../../job/job-id.ts'
import { monthOf } from '../../job/month.ts'
import {
  type AdminActionStore,
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
  type Cancelled,
} from '../admin-action-store.ts'
import { MAX_CANCELLED, type NodeStore } from '../node-store.ts'
import { type OwnCancel, type OwnJobStore, usageOfCancelled } from '../own-job-store.ts'
import { numberOf, textOf, textOrNull } from '../rows.ts'
import { USAGE_COLUMNS } from '../usage-rows.ts'
import type { Database, Queries, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { openBytesOf, QUOTA_COLUMNS } from './quotas.ts'

/** The node in the rows of outcomes that no node settled; no node has such a name. */
const OPERATOR = 'operator'
const CALLER = 'caller'
/** Of the error and the receipt. */
const OUTCOME_BYTES = 'octet_length($4::text) + octet_length($6::text)'
/** A node that has not asked for so long is dead. */
const REPORTED_WITHIN_MS = 3_600_000

export function cancelOperations(database: Database): Pick<AdminActionStore, 'cancelJob' | 'cancelJobs'> {
  return {
    cancelJob: async (jobId, nowMs) => {
      if (!isJobId(jobId)) return 'unknown'
      const [row] = await database.query(CANCEL_ONE, [...commonValues(nowMs, BY_OPERATOR), jobId])
      if (Number(row?.cancelled) > 0) return 'cancelled'
      return row?.there ? 'ended before' : 'unknown'
    },

    /** Picks until it finds none: a job that is claimed or ends meanwhile does not make it stop before the end. */
    cancelJobs: async ({ account, running, beforeJobId, limit, nowMs }) => {
      let total = 0
      while (total < limit) {
        const values = [...commonValues(nowMs, BY_OPERATOR), account, running, beforeJobId, limit - total]
        const [row] = await database.query(CANCEL_SOME, values)
        total += Number(row?.cancelled)
        if (Number(row?.picked) === 0) break
      }
      return total
    },
  }
}

export function ownCancelOperations({
  database,
  notifications,
}: PostgresParts): Pick<OwnJobStore, 'cancelOwnJob' | 'heldMessages'> {
  return {
    cancelOwnJob: async (cancel) => {
      if (!isJobId(cancel.jobId)) return 'unknown'
      const result = await database.transaction((queries) => cancelOwn(queries, cancel))
      if (result === 'cancelled') notifications.ended(cancel.jobId)
      return result
    },

    heldMessages: async (account, jobId, maxBytes) => {
      if (!isJobId(jobId)) return null
      const [job] = await database.query(HELD_MESSAGES, [jobId, account, maxBytes])
      return job ? textOf(job, 'messages') : null
    },
  }
}

async function cancelOwn(
  { query }: Queries,
  { account, jobId, nowMs, inputTokens }: OwnCancel,
): Promise<Cancelled> {
  const [job] = await query(FIND_OWN, [jobId, account])
  if (!job) return 'unknown'
  // Locked, so that what it used is that of the run that is cancelled.
  const [open] = await query(LOCK_OPEN, [jobId])
  if (!open) return 'ended before'
  const usageJson = usageOfCancelled({
    isHeld: open.node !== null,
    inputTokens: inputTokens ?? numberOf(job, 'input_tokens'),
    earlierJson: textOrNull(open, 'earlier'),
  })
  const by = { who: CALLER, errorJson: cancelledErrorJson('caller'), usageJson }
  const [row] = await query(CANCEL_ONE, [...commonValues(nowMs, by), jobId])
  return Number(row?.cancelled) > 0 ? 'cancelled' : 'ended before'
}

export function cancelledOperations(database: Database): Pick<NodeStore, 'takeCancelled'> {
  return {
    takeCancelled: async (node) => {
      const rows = await database.query(TAKE_CANCELLED, [node])
      return rows.map((row) => ({ jobId: textOf(row, 'job_id'), attempt: numberOf(row, 'attempt') }))
    },
  }
}

/** Deletes what no node has taken. */
export async function forgetCancelled(database: Database, nowMs: number): Promise<void> {
  await database.query(FORGET, [Math.floor(nowMs - REPORTED_WITHIN_MS)])
}

interface CancelledOutcome {
  readonly who: string
  readonly errorJson: string
  readonly usageJson: string
}

const BY_OPERATOR: CancelledOutcome = {
  who: OPERATOR,
  errorJson: CANCELLED_ERROR_JSON,
  usageJson: CANCELLED_USAGE_JSON,
}

function commonValues(nowMs: number, { who, errorJson, usageJson }: CancelledOutcome): unknown[] {
  const at = Math.floor(nowMs)
  return [at, monthOf(at), who, errorJson, usageJson, CANCELLED_RECEIPT_JSON]
}

/**
 * $1 now, $2 month, $3 by whom, $4 error, $5 usage, $6 receipt. The node that holds the job finds it gone when it settles: the fence
 * of all writes is its row in `open_jobs`.
 * @param which condition of `open_jobs o`
 */
const end = (which: string) => `
  freed as (
    delete from open_jobs o where ${which}
    returning o.id, o.account, o.has_callback, o.attempt, o.deaths, o.claimed_at_ms, o.node, o.origin,
      ${openBytesOf('o')} as bytes
  ),
  written as (
    insert into outcomes (id, status, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted, bytes)
    select id, 'failed', $4, $5, $6, $3, attempt, deaths, claimed_at_ms, $1::bigint, true, bytes + ${OUTCOME_BYTES} from freed
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, $1::bigint, $1::bigint from freed where has_callback
  ),
  counted as (
    insert into usage_deltas (${USAGE_COLUMNS})
    select f.account, $2, j.model, count(*), count(*), 0, count(*) * ($5::json ->> 'calls')::bigint,
      count(*) * ($5::json ->> 'input_tokens')::numeric, count(*) * ($5::json ->> 'output_tokens')::numeric
    from freed f cross join lateral (select model from jobs where id = f.id limit 1) j group by f.account, j.model
  ),
  counted_ended as (
    insert into quota_deltas (${QUOTA_COLUMNS})
    select account, hour_of_job(id), -count(*), -sum(bytes), sum(bytes + ${OUTCOME_BYTES}) from freed group by 1, 2
  ),
  reported as (
    insert into cancelled_jobs (node, job_id, attempt, at_ms)
    select node, id, attempt, $1::bigint from freed where node is not null
    union all
    select origin, id, attempt, $1::bigint from freed where origin is not null and origin is distinct from node
    on conflict (node, job_id) do nothing
  )`

const FIND_OWN: Statement = {
  name: 'find own job to cancel',
  text: 'select input_tokens from jobs where id = $1::uuid and account = $2',
}
const HELD_MESSAGES: Statement = {
  repeatable: true,
  name: 'held messages',
  text: `
  select j.messages from jobs j join open_jobs o on o.id = j.id
  where j.id = $1::uuid and j.account = $2 and o.node is not null and octet_length(j.messages) <= $3::bigint`,
}
const LOCK_OPEN: Statement = {
  name: 'lock job to cancel',
  text: 'select node, earlier from open_jobs where id = $1::uuid for update',
}

/** $7 the job. */
const CANCEL_ONE = {
  name: 'cancel job',
  text: `with ${end('o.id = $7::uuid')}
  select (select count(*) from freed) as cancelled, exists (select 1 from jobs where id = $7::uuid) as there`,
}

/**
 * $7 account, $8 whether those that run, too, $9 before which job, $10 limit. What was picked may be claimed or released
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

/** Every node queries this often, mostly without a result: a lookup in the primary key. */
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
