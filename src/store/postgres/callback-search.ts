/** Searches callbacks in Postgres, for operators. */
import { isJobId } from '../../job/job-id.ts'
import { readDetails, readSummary, searchCallbacksByChunk, URL_PREFIX } from '../callback-rows.ts'
import type { CallbackRecords, CallbackScan, CallbackState, CallbackSummary } from '../callback-store.ts'
import type { Chunk } from '../pagination.ts'
import { numberOf, textOrNull } from '../rows.ts'
import type { Database, Statement } from './database.ts'

/** Callbacks in a chunk, a statement each. */
const CHUNK_ROWS = 2000

export function callbackSearchOperations(
  database: Database,
): Pick<CallbackRecords, 'searchCallbacks' | 'findCallback'> {
  return {
    searchCallbacks: (filter) =>
      searchCallbacksByChunk(filter, CHUNK_ROWS, (chunk) => scanCallbacks(database, chunk)),

    findCallback: async (jobId) => {
      if (!isJobId(jobId)) return null
      const [row] = await database.query(FIND, [jobId])
      return row ? readDetails(row) : null
    },
  }
}

async function scanCallbacks(
  database: Database,
  { state, account, beforeId, enough }: CallbackScan,
): Promise<Chunk<CallbackSummary>> {
  const rows = await database.query(SCAN[state ?? 'any'], [beforeId, account, enough])
  const [first = {}] = rows
  return {
    scanned: numberOf(first, 'scanned'),
    lastId: textOrNull(first, 'last_id'),
    matches: rows.filter((row) => row.job_id !== null).map(readSummary),
  }
}

const IN_STATE: Readonly<Record<CallbackState, string>> = {
  owed: 'c.due_at_ms is not null',
  delivered: 'c.delivered_at_ms is not null',
  failed: 'c.failed_at_ms is not null',
}

/**
 * $1 before which job, $2 account, $3 how many are enough. Rows are looked up one by one, as those of jobs are
 * (job-search.ts); one without a job's id only reports what was scanned.
 */
const scan = (state: CallbackState | 'any'): Statement => ({
  repeatable: true,
  name: `scan ${state} callbacks`,
  text: `
  with scanned as materialized (
    select job_id from callbacks where job_id < $1::uuid ${state === 'failed' ? 'and failed_at_ms is not null' : ''}
    order by job_id desc limit ${CHUNK_ROWS}
  ),
  matching as (
    select c.*, j.callback_prefix, o.status from scanned l
    cross join lateral (
      select job_id, account, attempt, due_at_ms, delivered_at_ms, failed_at_ms, under_way, attempts from callbacks c
      where job_id = l.job_id and ($2::text is null or account = $2) and ${state === 'any' ? 'true' : IN_STATE[state]}
      limit 1
    ) c
    cross join lateral (select left(callback, ${URL_PREFIX}) as callback_prefix from jobs where id = l.job_id limit 1) j
    cross join lateral (select status from outcomes where id = l.job_id limit 1) o
    order by l.job_id desc limit $3::bigint
  )
  select (select count(*) from scanned) as scanned, (select job_id from scanned order by job_id limit 1) as last_id, w.*
  from (select 1) one left join matching w on true order by w.job_id desc`,
})
const SCAN: Readonly<Record<CallbackState | 'any', Statement>> = {
  any: scan('any'),
  owed: scan('owed'),
  delivered: scan('delivered'),
  failed: scan('failed'),
}

const FIND: Statement = {
  repeatable: true,
  name: 'find callback',
  text: `
  select c.job_id, c.account, c.attempt, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms, c.under_way, c.attempts,
    j.callback, left(j.callback, ${URL_PREFIX}) as callback_prefix, o.status
  from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
  where c.job_id = $1::uuid`,
}
