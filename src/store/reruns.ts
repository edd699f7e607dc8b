/** Both stores share this SQL, which stores requests for reruns, takes and ends them, and reads the jobs to rerun. */
import { ACCOUNT_CAPS, readStanding, readTier } from './accounts.ts'
import { storedTextOf } from './compressed-text.ts'
import type { Dialect } from './dialect.ts'
import type { Expiry } from './expiry.ts'
import { hasExpired, IS_JOB } from './job-rows.ts'
import {
  type EndedRerun,
  type JobToRerun,
  type OpenRerun,
  RERUN_RETENTIONS,
  RERUN_TAKEN_MS,
  type RequestedRerun,
  type RerunEnd,
  type RerunLinks,
  type RerunRequest,
} from './rerun-store.ts'
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'
import { raw, read, repeatableWrite, type Sql, type Steps, sql, write } from './sql.ts'

const STEP = 400

const isFree = (nowMs: number) =>
  sql`ended_at_ms is null and (taken_at_ms is null or taken_at_ms <= ${nowMs - RERUN_TAKEN_MS})`

export const rerunOperations = ({ idsOf, isOneOf, job, jobId: idOf, joinJob, text }: Dialect) => ({
  // The reruns of a job are numbered. A refused rerun does not count, so the next request gets the same number and replaces it.
  requestReruns: write(function* (request: RerunRequest): Steps<RequestedRerun[]> {
    const { jobIds, withCallback, again, ofReruns, limit, nowMs } = request
    const earlier = sql`from reruns e where e.original_id = one.id and e.refusal is null`
    const number = again ? sql`(select count(*) ${earlier})` : sql`0`
    const rows = yield sql`
      insert into reruns as r (id, original_id, with_callback, requested_at_ms)
      select cast(one.id as text) || '/' || ${number}, one.id, ${raw(withCallback ? 1 : 0)}, cast(${nowMs} as bigint)
      from (${idsOf(jobIds)}) one
      where ${again ? sql`true` : sql`not exists (select 1 ${earlier})`}
        and ${ofReruns ? sql`true` : sql`not exists (select 1 from reruns m where m.rerun_id = one.id)`}
      order by one.id desc limit ${limit}
      on conflict (id) do update
        set with_callback = excluded.with_callback, requested_at_ms = excluded.requested_at_ms,
          taken_at_ms = null, ended_at_ms = null, refusal = null
        where r.refusal is not null
      returning id, original_id`
    return rows.map(readRerun).sort((one, other) => (one.jobId > other.jobId ? -1 : 1))
  }),

  // This is declared as a write, so that on SQLite it shares a message and a transaction with other polls.
  openReruns: repeatableWrite(function* (nowMs: number, limit: number): Steps<OpenRerun[]> {
    const rows = yield sql`
      select id, original_id, with_callback from reruns where ${isFree(nowMs)} order by requested_at_ms limit ${limit}`
    return rows.map((row) => ({ ...readRerun(row), withCallback: numberOf(row, 'with_callback') === 1 }))
  }),

  // A statement that is repeated because its response was lost takes the request again.
  takeRerun: repeatableWrite(function* (id: string, nowMs: number): Steps<boolean> {
    const rows = yield sql`
      update reruns set taken_at_ms = ${nowMs}
      where id = ${id} and (${isFree(nowMs)} or ended_at_ms is null and taken_at_ms = ${nowMs}) returning id`
    return rows.length > 0
  }),

  endRerun: repeatableWrite(function* (id: string, end: RerunEnd, nowMs: number): Steps<void> {
    const rerunId = end.rerunId === null ? sql`null` : idOf(end.rerunId)
    yield sql`
      update reruns set ended_at_ms = ${nowMs}, rerun_id = ${rerunId}, refusal = ${end.refusal}
      where id = ${id} and ended_at_ms is null`
  }),

  endedReruns: read(function* (ids: readonly string[]): Steps<EndedRerun[]> {
    const rows = yield sql`
      select id, original_id, rerun_id, refusal from reruns where id ${isOneOf(ids)} and ended_at_ms is not null`
    return rows.map((row) => ({ ...readRerun(row), ...readEnd(row) }))
  }),

  jobToRerun: read(function* (jobId: string, expiry: Expiry): Steps<JobToRerun | null> {
    const [row] = yield sql`
      select j.model, j.created_at_ms, j.deadline_ms, j.priority, j.input_tokens, j.cache_ttl_s,
        ${text(job.request, 'messages')} as messages, ${job.request}.response_format, ${job.request}.callback,
        ${job.settledAtMs} as settled_at_ms, c.due_at_ms,
        a.name, a.tier, a.suspended_at_ms, a.webhook_url, ${ACCOUNT_CAPS}
      from (select ${idOf(jobId)} as id) one ${joinJob(sql`one.id`)} join accounts a on a.name = j.account
      where ${raw(IS_JOB)}`
    return row && !hasExpired(row, expiry) ? readJob(row) : null
  }),

  forgetReruns: repeatableWrite(function* ({ nowMs, retentionMs }: Expiry): Steps<boolean> {
    const rows = yield sql`
      delete from reruns where id in (
        select id from reruns where ended_at_ms <= ${Math.floor(nowMs - RERUN_RETENTIONS * retentionMs)} limit ${STEP}
      ) returning id`
    return rows.length >= STEP
  }),
})

export function* rerunLinks(id: Sql): Steps<RerunLinks> {
  const rows = yield sql`
    select r.original_id as id, 1 as is_original from reruns r
    where r.rerun_id = ${id} and exists (select 1 from jobs j where j.id = r.original_id)
    union all
    select r.rerun_id, 0 from reruns r
    where r.original_id = ${id} and exists (select 1 from jobs j where j.id = r.rerun_id)
    order by 1`
  const original = rows.find((row) => row.is_original === 1)
  const reruns = rows.filter((row) => row !== original).map((row) => textOf(row, 'id'))
  return { rerunOf: original ? textOf(original, 'id') : null, reruns }
}

function readRerun(row: Row): RequestedRerun {
  return { id: textOf(row, 'id'), jobId: textOf(row, 'original_id') }
}

function readEnd(row: Row): RerunEnd {
  const rerunId = textOrNull(row, 'rerun_id')
  return rerunId === null ? { rerunId, refusal: textOf(row, 'refusal') } : { rerunId, refusal: null }
}

function readJob(row: Row): JobToRerun {
  return {
    model: textOf(row, 'model'),
    messagesJson: storedTextOf(row, 'messages'),
    responseFormatJson: textOf(row, 'response_format'),
    callbackJson: textOrNull(row, 'callback'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    inputTokens: numberOf(row, 'input_tokens'),
    hasEnded: row.settled_at_ms !== null,
    priority: textOrNull(row, 'priority'),
    deadlineMs: numberOrNull(row, 'deadline_ms'),
    owner: { name: textOf(row, 'name'), tier: readTier(row), ...readStanding(row) },
  }
}
