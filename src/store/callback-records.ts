/** Reads and writes the rows of callbacks, and searches and replays callbacks for operators, for both stores. */
import type { Callback } from '../job/job.ts'
import { isJobId } from '../job/job-id.ts'
import { readSecrets } from './accounts.ts'
import {
  type AttemptRecord,
  type CallbackAttempt,
  type CallbackBody,
  type CallbackDepth,
  type CallbackDetails,
  type CallbackFilter,
  type CallbackScan,
  type CallbackState,
  type CallbackSummary,
  type DueCallback,
  type FailedFilter,
  MAX_COUNTED,
  type Replay,
} from './callback-store.ts'
import { AFTER_ALL, type Chunk, type Page, paginate } from './chunked-search.ts'
import type { Dialect } from './dialect.ts'
import type { Expiry } from './expiry.ts'
import { readJobRecord } from './job-rows.ts'
import { booleanOf, numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, raw, read, type Sql, type Steps, sql, write } from './sql.ts'

export const callbackRecordOperations = (dialect: Dialect) => {
  const { callbackKey, callbacksBefore, failedCallbacks, isCallbackOf, job, joinJob, jobId: idOf } = dialect
  const columns = sql`c.job_id, c.account, c.attempt, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms, c.under_way,
    c.attempts, substr(${job.request}.callback, 1, ${raw(URL_PREFIX)}) as callback_prefix, ${job.status} as status`

  /** The condition applies the rule of `expiresAtMs`. */
  const isReadable = ({ nowMs, retentionMs }: Expiry, settledAtMs: Sql) =>
    sql`${settledAtMs} + ${dialect.greatest(sql`${retentionMs}`, sql`j.cache_ttl_s * 1000`)} > ${nowMs}`

  const findOne = (jobId: string, selected: Sql, condition: Sql) => sql`
    select ${selected} from (select ${idOf(jobId)} as id) one ${joinJob(sql`one.id`)}
    where c.job_id is not null and ${condition}`

  return {
    /**
     * Reads only the beginning of each callback, because a payload can be large. If nothing matches, the statement returns a
     * single row without an ID, which says only how far the scan came.
     */
    scanCallbacks: read(function* (scan: CallbackScan): Steps<Chunk<CallbackSummary>> {
      const { state, account, beforeId, rows: limit, enough } = scan
      const scanned = sql`account, due_at_ms, delivered_at_ms, failed_at_ms`
      const rows = yield sql`
        with scanned as materialized (
          ${callbacksBefore(beforeId, state === 'failed', scanned)} limit ${raw(limit)}
        ),
        matching as (
          select one.place, ${columns}
          from (
            select job_id, place from scanned where ${allOf(
              account === null ? undefined : sql`account = ${account}`,
              state === null ? undefined : IN_STATE[state],
            )} order by place desc limit ${enough}
          ) one ${joinJob(sql`one.job_id`)}
        )
        select (select count(*) from scanned) as scanned,
          (select job_id from scanned order by place limit 1) as last_id, m.*
        from (select 1 as one) one left join matching m on true order by m.place desc`
      const [first = {}] = rows
      return {
        scanned: numberOf(first, 'scanned'),
        lastId: textOrNull(first, 'last_id'),
        matches: rows.filter((row) => row.job_id !== null).map(readSummary),
      }
    }),

    findCallback: read(function* (jobId: string): Steps<CallbackDetails | null> {
      if (!isJobId(jobId)) return null
      const [row] = yield findOne(jobId, sql`${columns}, ${job.request}.callback`, sql`true`)
      return row ? readDetails(row) : null
    }),

    callbackDepth: read(function* (): Steps<CallbackDepth> {
      const [row = {}] = yield sql`
        select ${countOf('due_at_ms')} as owed, ${countOf('failed_at_ms')} as failed, (select min(due) from (
          select min(due_at_ms) as due from callbacks where lane = 0 and due_at_ms is not null
          union all select min(due_at_ms) from callbacks where lane = 1 and due_at_ms is not null
        ) d) as earliest_due_ms`
      return {
        owed: numberOf(row, 'owed'),
        failed: numberOf(row, 'failed'),
        earliestDueMs: numberOrNull(row, 'earliest_due_ms'),
      }
    }),

    replayCallback: write(function* (jobId: string, expiry: Expiry): Steps<Replay> {
      if (!isJobId(jobId)) return 'unknown'
      const known = sql`(c.due_at_ms is not null or ${isReadable(expiry, job.settledAtMs)})`
      const found = yield findOne(jobId, sql`c.job_id`, known)
      if (found.length === 0) return 'unknown'
      const replayed = yield sql`
        update callbacks set ${dueAgain(expiry.nowMs)} where ${isCallbackOf(jobId)} and not under_way returning 1`
      return replayed.length > 0 ? 'replayed' : 'in progress'
    }),

    replayFailedCallbacks: write(function* (filter: FailedFilter, expiry: Expiry): Steps<number> {
      const { account, limit } = filter
      const which = allOf(
        sql`c.failed_at_ms < ${expiry.nowMs}`,
        isReadable(expiry, job.settledAtMs),
        account === undefined ? undefined : sql`c.account = ${account}`,
      )
      const replayed = yield sql`
        with found as materialized (${failedCallbacks(which, limit)})
        update callbacks set ${dueAgain(expiry.nowMs)}
        where ${callbackKey} in (select ${callbackKey} from found) and failed_at_ms is not null returning 1`
      return replayed.length
    }),
  }
}

const countOf = (column: string) =>
  sql`(select count(*) from (select 1 from callbacks where ${raw(column)} is not null limit ${raw(MAX_COUNTED)}) c)`

const IN_STATE: Readonly<Record<CallbackState, Sql>> = {
  owed: sql`due_at_ms is not null`,
  delivered: sql`delivered_at_ms is not null`,
  failed: sql`failed_at_ms is not null`,
}

/** Replayed callbacks are queued as retries, so that many of them do not delay new callbacks. */
const dueAgain = (
  nowMs: number,
) => sql`node = null, due_at_ms = ${nowMs}, owed_since_ms = ${nowMs}, tries = 0, lane = 1,
  delivered_at_ms = null, failed_at_ms = null`

export function searchCallbacksByChunk(
  { state, account, beforeJobId = AFTER_ALL, limit }: CallbackFilter,
  rows: number,
  scanCallbacks: (scan: CallbackScan) => Promise<Chunk<CallbackSummary>>,
): Promise<Page<CallbackSummary>> {
  return paginate<CallbackSummary>({
    limit,
    chunkRows: rows,
    beforeId: beforeJobId,
    idOf: ({ jobId }) => jobId,
    scan: (beforeId) =>
      scanCallbacks({ state: state ?? null, account: account ?? null, beforeId, rows, enough: limit + 1 }),
  })
}

function readSummary(row: Row): CallbackSummary {
  const state = stateOf(row)
  return {
    jobId: textOf(row, 'job_id'),
    account: textOf(row, 'account'),
    url: urlOf(row),
    state,
    attempts: numberOf(row, 'attempt'),
    dueAtMs: state === 'owed' && !booleanOf(row, 'under_way') ? numberOf(row, 'due_at_ms') : null,
    endedAtMs: state === 'owed' ? null : numberOf(row, `${state}_at_ms`),
    last: readAttempts(row).at(-1) ?? null,
  }
}

function readDetails(row: Row): CallbackDetails {
  const { headers, payloadJson, event }: Callback = JSON.parse(textOf(row, 'callback'))
  return {
    ...readSummary(row),
    jobStatus: textOf(row, 'status'),
    headerNames: Object.keys(headers),
    payloadJson,
    event: event?.of ?? null,
    inProgress: booleanOf(row, 'under_way'),
    log: readAttempts(row),
  }
}

function stateOf(row: Row): CallbackState {
  if (row.due_at_ms !== null) return 'owed'
  return row.delivered_at_ms === null ? 'failed' : 'delivered'
}

function readAttempts(row: Row): CallbackAttempt[] {
  const lines = textOf(row, 'attempts').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as CallbackAttempt)
}

/**
 * The URL ends within this many characters of a callback: it has at most 8,192, and JSON may escape each of them. Only version
 * 0.1 stored longer URLs.
 */
export const URL_PREFIX = 2 * 8192 + 100

/** Of a longer URL, which only version 0.1 stored, this returns the beginning. */
function urlOf(row: Row): string {
  const prefix = textOf(row, 'callback_prefix')
  const [, escaped] = /^\{"url":"([^"\\]*(?:\\.[^"\\]*)*)/.exec(prefix) ?? []
  if (!escaped) throw new Error('a stored callback does not begin with its URL')
  return escaped.includes('\\') ? (JSON.parse(`"${escaped}"`) as string) : escaped
}

export function attemptLine(attempt: CallbackAttempt): string {
  return `${JSON.stringify(attempt)}\n`
}

export function recordCells({ next, nowMs }: AttemptRecord) {
  return {
    dueAtMs: next.kind === 'due' ? next.atMs : null,
    deliveredAtMs: next.kind === 'delivered' ? nowMs : null,
    failedAtMs: next.kind === 'failed' ? nowMs : null,
    uncounted: next.kind === 'due' && !next.counts ? 1 : 0,
  }
}

/** The `attempt` of the row already counts the new attempt. */
export function readDueCallback(row: Row): DueCallback {
  return {
    jobId: textOf(row, 'job_id'),
    attempt: numberOf(row, 'attempt'),
    tries: numberOf(row, 'tries'),
    account: textOf(row, 'account'),
    url: urlOf(row),
    bodyBytes: numberOf(row, 'body_bytes'),
    owedSinceMs: numberOf(row, 'owed_since_ms'),
  }
}

export function readCallbackBody(row: Row): CallbackBody {
  const callback: Callback = JSON.parse(textOf(row, 'callback'))
  return {
    callback,
    view: readJobRecord(row),
    endedAtMs: numberOf(row, 'settled_at_ms'),
    secrets: row.secret === null ? null : readSecrets(row),
  }
}
