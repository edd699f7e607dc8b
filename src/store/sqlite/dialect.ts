/** Contains the parts of the shared SQL that are different for SQLite. Rows of the same job have the same row number, `seq`. */
import type { Dialect } from '../dialect.ts'
import { MAX_EQUAL, NO_CALLERS } from '../held-request-store.ts'
import { IS_JOB } from '../job-rows.ts'
import { raw, sql } from '../sql.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import { MAX_OPEN_COUNTED } from '../usage-store.ts'
import { cancel } from './cancel.ts'
import { deleteJobs } from './delete.ts'
import { textOf } from './texts.ts'

export const SQLITE: Dialect = {
  // The storage thread scans this many rows in two milliseconds.
  chunkRows: 500,
  greatest: (one, other) => sql`max(${one}, ${other})`,
  jobId: (id) => sql`${id}`,
  idsOf: (jobIds) => sql`select value as id from json_each(${jobIds})`,
  anyOf: (jobIds) => sql`in (select value from json_each(${jobIds}))`,
  isOneOf: (texts) => sql`in (select value from json_each(${texts}))`,
  heldRequestsOf: (accounts, prefixes, nowMs) => sql`
    select account, key, job_ids, fingerprint from (
      select i.*, row_number() over (partition by a.key order by i.fingerprint like ${NO_CALLERS} desc, i.key) as place
      from json_each(${accounts}) a join json_each(${prefixes}) p on p.key = a.key
      cross join idempotency i
        on i.account = a.value and i.key >= p.value || '0' and i.key < p.value || 'z' and i.until_ms > ${nowMs}
    ) where place <= ${MAX_EQUAL} order by place`,
  pairsOf: (ones, others) =>
    sql`select value ->> 0, value ->> 1 from json_each(${JSON.stringify(ones.map((one, at) => [one, others[at]]))})`,
  linesOf: (lines) => sql`
    select value ->> 0 as line, value ->> 1 as custom_id, value ->> 2 as job_id
    from json_each(${JSON.stringify(lines.map(({ line, customId, jobId }) => [line, customId, jobId]))})`,
  // Only one server uses a SQLite file.
  liveNodes: sql`select '' as node where false`,

  quotaUseOf: (account) =>
    sql`select open_jobs, stored_bytes, reserved from quota_sums where account = ${account}`,
  joinQuotaUse: sql`left join quota_sums q on q.account = a.name`,
  openJobsOf: (account) => sql`(select count(*) from (
    select 1 from jobs indexed by jobs_in_lanes where turn is not null and deaths = 0 and account = ${account}
    union all select 1 from jobs indexed by jobs_suspected where turn is not null and deaths > 0 and account = ${account}
    union all select 1 from jobs indexed by jobs_held where node is not null and account = ${account}
    limit ${raw(MAX_OPEN_COUNTED)}))`,
  usage: (condition) => sql`select ${raw(USAGE_COLUMNS)} from usage where ${condition}`,

  text: (row, column) => raw(textOf(row.texts.join(''), column)),
  placeIn: (text, part) => sql`instr(${text}, ${part})`,
  joinJob: (id) => sql`cross join jobs j on j.id = ${id} left join requests r on r.seq = j.seq
    left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq`,
  job: {
    request: sql`r`,
    queued: sql`j`,
    status: sql`j.status`,
    claimedAtMs: sql`j.claimed_at_ms`,
    settledAtMs: sql`j.settled_at_ms`,
    attempt: sql`j.attempt`,
    crashCount: sql`j.deaths`,
  },

  // The indexes of open jobs stay small, because they contain no finished jobs.
  jobsWith: (status, columns, condition) => {
    if (status === 'pending')
      return sql`select ${columns} from jobs indexed by jobs_by_age where turn is not null and ${condition}`
    if (status !== 'assigned') return sql`select ${columns} from jobs where ${condition}`
    return sql`select ${columns} from jobs indexed by jobs_held where node is not null and ${condition} union all
      select ${columns} from jobs indexed by jobs_returned where turn is not null and attempt > 0 and ${condition}`
  },

  /**
   * Row numbers increase with the time of acceptance, like IDs. If the job was deleted, the next job determines the position.
   */
  callbacksBefore: (jobId, onlyFailed, columns) => {
    const before = sql`coalesce((
      select seq from jobs j where id >= ${jobId} and (id = ${jobId} or ${raw(IS_JOB)}) order by id limit 1
    ), ${raw(Number.MAX_SAFE_INTEGER)})`
    const source = onlyFailed
      ? sql`callbacks indexed by callbacks_failed where failed_at_ms is not null and`
      : sql`callbacks where`
    return sql`select job_id, seq as place, ${columns} from ${source} seq < ${before} order by seq desc`
  },
  isCallbackOf: (jobId) => sql`seq = (select seq from jobs where id = ${jobId})`,
  failedCallbacks: (condition, limit) => sql`
    select c.seq from callbacks c indexed by callbacks_failed join jobs j on j.id = c.job_id
    where ${condition} order by c.seq limit ${limit}`,
  callbackKey: sql`seq`,

  openJobs: ({ account, beforeJobId, running }, limit) => {
    const range = sql`account = ${account} and id < ${beforeJobId}`
    return sql`
      select id from jobs indexed by jobs_in_lanes where turn is not null and deaths = 0 and ${range}
      union all select id from jobs indexed by jobs_suspected where turn is not null and deaths > 0 and ${range}
      union all select id from jobs indexed by jobs_held where node is not null and ${range} and ${running}
      limit ${limit}`
  },
  /** Each write transaction locks the whole file, so no other lock is needed. */
  lockAccount: () => sql`select 1`,
  lockOpenJob: (jobId) =>
    sql`select node, earlier, reserved from jobs where id = ${jobId} and settled_at_ms is null`,
  cancel,
  deleteJobs,
}
