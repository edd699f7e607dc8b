/** What operators see and do of callbacks in Postgres. */
import { isJobId } from '../../job/job-id.ts'
import { readDetails, readSummary, searchCallbacksByChunk, URL_PREFIX } from '../callback-rows.ts'
import type {
  CallbackDetails,
  CallbackFilter,
  CallbackRecords,
  CallbackScan,
  CallbackState,
  CallbackSummary,
  FailedFilter,
  Replay,
} from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import type { Chunk, Page } from '../pagination.ts'
import type { Database, Statement } from './database.ts'

/** Callbacks in a slice, a statement each. */
const SLICE_ROWS = 2000

export class PostgresCallbackRecords implements CallbackRecords {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>> {
    return searchCallbacksByChunk(filter, SLICE_ROWS, (slice) => this.#look(slice))
  }

  async #look({ state, account, beforeId, enough }: CallbackScan): Promise<Chunk<CallbackSummary>> {
    const rows = await this.#database.query(LOOK[state ?? 'any'], [beforeId, account, enough])
    const [first] = rows
    return {
      scanned: Number(first?.looked),
      lastId: first?.last_id == null ? null : String(first.last_id),
      matches: rows.filter(({ job_id }) => job_id !== null).map(readSummary),
    }
  }

  async findCallback(jobId: string): Promise<CallbackDetails | null> {
    if (!isJobId(jobId)) return null
    const [row] = await this.#database.query(FIND, [jobId])
    return row ? readDetails(row) : null
  }

  async replayCallback(jobId: string, { nowMs, retentionMs }: Expiry): Promise<Replay> {
    if (!isJobId(jobId)) return 'unknown'
    const [row] = await this.#database.query(REPLAY, [nowMs, retentionMs, jobId])
    if (!row) return 'unknown'
    return row.replayed ? 'replayed' : 'in progress'
  }

  async replayFailedCallbacks(
    { account, limit }: FailedFilter,
    { nowMs, retentionMs }: Expiry,
  ): Promise<number> {
    const values = [nowMs, retentionMs, limit, account ?? null]
    return (await this.#database.query(REPLAY_FAILED, values)).length
  }
}

const SELECT = `
  select c.job_id, c.account, c.attempt, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms, c.under_way, c.attempts,
    j.callback, left(j.callback, ${URL_PREFIX}) as callback_prefix, o.status
  from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id`

const IN_STATE: Readonly<Record<CallbackState, string>> = {
  owed: 'c.due_at_ms is not null',
  delivered: 'c.delivered_at_ms is not null',
  failed: 'c.failed_at_ms is not null',
}

/**
 * $1 before which job, $2 account, $3 how many are enough. Rows are looked up one by one, as those of jobs are
 * (job-records.ts); one without a job's id says only what was looked at.
 */
const look = (state: CallbackState | 'any'): Statement => ({
  repeatable: true,
  name: `look at ${state} callbacks`,
  text: `
  with looked as materialized (
    select job_id from callbacks where job_id < $1::uuid ${state === 'failed' ? 'and failed_at_ms is not null' : ''}
    order by job_id desc limit ${SLICE_ROWS}
  ),
  wanted as (
    select c.*, j.callback_prefix, o.status from looked l
    cross join lateral (
      select job_id, account, attempt, due_at_ms, delivered_at_ms, failed_at_ms, under_way, attempts from callbacks c
      where job_id = l.job_id and ($2::text is null or account = $2) and ${state === 'any' ? 'true' : IN_STATE[state]}
      limit 1
    ) c
    cross join lateral (select left(callback, ${URL_PREFIX}) as callback_prefix from jobs where id = l.job_id limit 1) j
    cross join lateral (select status from outcomes where id = l.job_id limit 1) o
    order by l.job_id desc limit $3::bigint
  )
  select (select count(*) from looked) as looked, (select job_id from looked order by job_id limit 1) as last_id, w.*
  from (select 1) one left join wanted w on true order by w.job_id desc`,
})
const LOOK: Readonly<Record<CallbackState | 'any', Statement>> = {
  any: look('any'),
  owed: look('owed'),
  delivered: look('delivered'),
  failed: look('failed'),
}

const FIND: Statement = {
  repeatable: true,
  name: 'find callback',
  text: `${SELECT} where c.job_id = $1::uuid`,
}

/** Whether the job is still readable, as `expiresAtMs` has it. $1 now, $2 retention. */
const KEPT = 'o.settled_at_ms + greatest($2::bigint, j.cache_ttl_s * 1000) > $1::bigint'

/** $1 now. Among the retries, so that many of them hold up no new one. */
const ANEW = `node = null, due_at_ms = $1::bigint, owed_since_ms = $1::bigint, tries = 0, lane = 1, delivered_at_ms = null,
  failed_at_ms = null`

const REPLAY = {
  name: 'replay callback',
  text: `
  with found as (
    select c.job_id from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
    where c.job_id = $3::uuid and (c.due_at_ms is not null or ${KEPT})
  ),
  replayed as (
    update callbacks c set ${ANEW} from found f where c.job_id = f.job_id and not c.under_way returning 1
  )
  select exists (select 1 from replayed) as replayed from found`,
}
const REPLAY_FAILED = {
  name: 'replay failed callbacks',
  text: `
  with found as (
    select c.job_id from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
    where c.failed_at_ms < $1::bigint and ${KEPT} and ($4::text is null or c.account = $4) order by c.job_id limit $3::bigint
  )
  update callbacks c set ${ANEW} from found f where c.job_id = f.job_id and c.failed_at_ms is not null returning 1`,
}
