/**
 * Contains the parts of the shared SQL that are different for Postgres. An open job has a row in `open_jobs`, a finished one in
 * `outcomes`.
 */
import type { Dialect } from '../dialect.ts'
import { MAX_EQUAL, NO_CALLERS } from '../held-request-store.ts'
import { raw, type Sql, sql, type Value } from '../sql.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import { MAX_OPEN_COUNTED } from '../usage-store.ts'
import { cancel } from './cancel.ts'
import { deleteJobs } from './delete.ts'
import { textOf } from './texts.ts'

const quotaUseOf = (account: Value | Sql) => sql`
  select coalesce(sum(open_jobs), 0) as open_jobs, coalesce(sum(bytes), 0) as stored_bytes, coalesce(sum(reserved), 0) as reserved
  from (
    select open_jobs, open_bytes + ended_bytes as bytes, reserved from quota_sums where account = ${account}
    union all select open_jobs, open_bytes + ended_bytes, reserved from quota_deltas where account = ${account}
  ) sums`

export const POSTGRES: Dialect = {
  chunkRows: 2000,
  greatest: (one, other) => sql`greatest(${one}, ${other})`,
  jobId: (id) => sql`${id}::uuid`,
  idsOf: (jobIds) => sql`select unnest(${jobIds}::uuid[]) as id`,
  anyOf: (jobIds) => sql`= any (${jobIds}::uuid[])`,
  isOneOf: (texts) => sql`= any (${texts}::text[])`,
  heldRequestsOf: (accounts, prefixes, nowMs) => sql`
    select i.account, i.key, i.job_ids, i.fingerprint
    from unnest(${accounts}::text[], ${prefixes}::text[]) as w(account, prefix)
    cross join lateral (
      select * from idempotency
      where account = w.account and key >= w.prefix || '0' and key < w.prefix || 'z'
      and until_ms > ${nowMs}
      order by fingerprint like ${NO_CALLERS} desc, key limit ${raw(MAX_EQUAL)}
    ) i`,
  pairsOf: (ones, others) => sql`select * from unnest(${ones}::text[], ${others}::text[])`,
  linesOf: (lines) => sql`
    select * from unnest(
      ${lines.map(({ line }) => line)}::bigint[], ${lines.map(({ customId }) => customId)}::text[],
      ${lines.map(({ jobId }) => jobId)}::text[]
    ) as l(line, custom_id, job_id)`,
  liveNodes: sql`select node from nodes where lease_until > clock_timestamp()`,

  quotaUseOf,
  joinQuotaUse: sql`cross join lateral (${quotaUseOf(sql`a.name`)}) q`,
  // Held jobs need no bound, because they are few compared with those that may be queued.
  openJobsOf: (account) => sql`(select count(*) from (
      select 1 from open_jobs where account = ${account} and turn is not null limit ${raw(MAX_OPEN_COUNTED)}
    ) waiting) + (select count(*) from open_jobs where node is not null and account = ${account})`,
  // One statement sees a delta either in the deltas or in the sums (`quotas.ts`).
  usage: (condition) => sql`
    select account, month, model, sum(jobs) as jobs, sum(failed_jobs) as failed_jobs, sum(cache_hits) as cache_hits,
      sum(calls) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost) as cost
    from (
      select ${raw(USAGE_COLUMNS)} from usage where ${condition}
      union all select ${raw(USAGE_COLUMNS)} from usage_deltas where ${condition}
    ) sums group by account, month, model`,

  text: (row, column) => raw(textOf(row.texts.join(''), column)),
  placeIn: (text, part) => sql`strpos(${text}, ${part})`,
  // Rows are looked up one by one. With a join of sets, the planner might read all outcomes to find those of a few jobs.
  joinJob: (id) => sql`
    cross join lateral (select * from jobs where id = ${id} limit 1) j
    left join lateral (select * from outcomes where id = ${id} limit 1) o on true
    left join lateral (select * from open_jobs where id = ${id} limit 1) q on true
    left join lateral (select * from callbacks where job_id = ${id} limit 1) c on true`,
  job: {
    request: sql`j`,
    queued: sql`q`,
    status: sql`coalesce(o.status, case when q.attempt > 0 then 'assigned' else 'pending' end)`,
    claimedAtMs: sql`coalesce(o.claimed_at_ms, q.claimed_at_ms)`,
    settledAtMs: sql`o.settled_at_ms`,
    attempt: sql`coalesce(o.attempt, q.attempt, 0)`,
    crashCount: sql`coalesce(o.deaths, q.deaths, 0)`,
  },

  jobsWith: (status, columns, condition) => {
    if (status === 'pending')
      return sql`select ${columns} from open_jobs where turn is not null and ${condition}`
    if (status !== 'assigned') return sql`select ${columns} from jobs where ${condition}`
    // There are few jobs of either kind. The offset prevents the planner from searching for them in all queued jobs.
    return sql`
      select ${columns} from (
        (select id, account from open_jobs where node is not null offset 0) union all
        (select id, account from open_jobs where turn is not null and attempt > 0 offset 0)
      ) assigned where ${condition}`
  },

  callbacksBefore: (jobId, onlyFailed, columns) => sql`
    select job_id, job_id as place, ${columns} from callbacks
    where job_id < ${jobId} and ${onlyFailed ? sql`failed_at_ms is not null` : sql`true`} order by job_id desc`,
  isCallbackOf: (jobId) => sql`job_id = ${jobId}`,
  // Skips rows that another replay has locked. Otherwise they would use up the limit, and then turn out to be replayed already.
  failedCallbacks: (condition, limit) => sql`
    select c.job_id from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
    where ${condition} order by c.job_id limit ${limit} for update of c skip locked`,
  callbackKey: sql`job_id`,

  openJobs: ({ account, beforeJobId, running }, limit) => sql`
    with waiting as materialized (
      select id from open_jobs
      where account >= ${account} and account <= ${account} and turn is not null and id < ${beforeJobId}
      order by account, turn limit ${limit}
    ),
    held as materialized (
      select id from open_jobs
      where ${running} and node is not null and account = ${account} and id < ${beforeJobId}
      order by id limit ${limit}
    )
    select id from waiting union all select id from held limit ${limit}`,
  lockAccount: (account) => sql`select 1 from accounts where name = ${account} for no key update`,
  lockOpenJob: (jobId) => sql`select node, earlier, reserved from open_jobs where id = ${jobId} for update`,
  cancel,
  deleteJobs,
}
