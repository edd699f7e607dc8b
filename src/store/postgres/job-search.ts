/** Searches jobs in Postgres, for operators. */
import type { Status } from '../../job/job.ts'
import { isJobId } from '../../job/job-id.ts'
import type { Expiry } from '../expiry.ts'
import { hasExpired } from '../job-rows.ts'
import {
  ERROR_HEAD,
  type JobChunk,
  type JobScan,
  readJobContent,
  readJobDetails,
  searchJobsByChunk,
} from '../job-search.ts'
import type { JobSearchStore } from '../job-search-store.ts'
import { numberOf, type Row, textOrNull } from '../rows.ts'
import type { Database, Statement } from './database.ts'

/** Jobs in a chunk, a statement each. */
const CHUNK_ROWS = 2000

export function jobSearchOperations(database: Database): JobSearchStore {
  return {
    searchJobs: (search) => searchJobsByChunk(search, CHUNK_ROWS, (chunk) => scanJobs(database, chunk)),

    findJob: async (jobId, expiry) => {
      const row = await findJob(database, FIND, jobId, expiry)
      return row && readJobDetails(row)
    },

    jobContent: async (jobId, expiry) => {
      const row = await findJob(database, CONTENT, jobId, expiry)
      return row && readJobContent(row)
    },
  }
}

async function scanJobs(
  database: Database,
  { account, status, model, fromId, beforeId }: JobScan,
): Promise<JobChunk> {
  const values = [beforeId, fromId, account, model, status]
  const statements = account === null ? SCAN : SCAN_OF_ACCOUNT
  const rows = await database.query(statements[status ?? 'any'], values)
  const [first = {}] = rows
  return {
    scanned: numberOf(first, 'scanned'),
    lastId: textOrNull(first, 'last_id'),
    matches: rows.filter((row) => row.id !== null),
  }
}

async function findJob(
  database: Database,
  statement: Statement,
  jobId: string,
  expiry: Expiry,
): Promise<Row | null> {
  if (!isJobId(jobId)) return null
  const [row] = await database.query(statement, [jobId])
  return row && !hasExpired(row, expiry) ? row : null
}

/**
 * Each job's rows are looked up one by one: joined as sets, the planner might read all outcomes to find those of a few
 * jobs, since it estimates a chunk as a part of the table.
 */
const ROWS_OF = (id: string) => `
  left join lateral (select * from outcomes where id = ${id} limit 1) o on true
  left join lateral (select * from open_jobs where id = ${id} limit 1) q on true
  left join lateral (select * from callbacks where job_id = ${id} limit 1) c on true`

const STATUS = `coalesce(o.status, case when q.attempt > 0 then 'assigned' else 'pending' end)`

const SUMMARY = `j.id, j.account, j.tier, j.model, ${STATUS} as status, j.created_at_ms, j.cache_ttl_s,
  coalesce(o.claimed_at_ms, q.claimed_at_ms) as claimed_at_ms, o.settled_at_ms, coalesce(o.attempt, q.attempt, 0) as attempt,
  o.usage, left(o.error, ${ERROR_HEAD}) as error_head, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms`

const RANGE = 'id < $1::uuid and id >= $2::uuid'

/** Jobs that have not ended are found where no others are. */
const SOURCES: Readonly<Record<'any' | 'pending' | 'assigned', (columns: string) => string>> = {
  any: (columns) => `select ${columns} from jobs where ${RANGE}`,
  pending: (columns) => `select ${columns} from open_jobs where turn is not null and ${RANGE}`,
  assigned: (columns) => `select ${columns} from open_jobs where node is not null and ${RANGE}
    union all select ${columns} from open_jobs where turn is not null and attempt > 0 and ${RANGE}`,
}

/**
 * $1 before which id, $2 from which on, $3 account, $4 model, $5 status. A row without an id only reports what was scanned. For one
 * account the scan reads the accounts of jobs, rather than look up each of those of others.
 */
const scan = (source: keyof typeof SOURCES, ofAccount: boolean): Statement => ({
  repeatable: true,
  name: `scan ${source} jobs${ofAccount ? ' of account' : ''}`,
  text: `
  with scanned as materialized (
    ${SOURCES[source](ofAccount ? 'id, account' : 'id')} order by id desc limit ${CHUNK_ROWS}
  ),
  matching as (
    select ${SUMMARY} from (select id from scanned where ${ofAccount ? 'account = $3::text' : '$3::text is null'}) l
    cross join lateral (
      select id, account, tier, model, created_at_ms, cache_ttl_s from jobs
      where id = l.id and ($4::text is null or model = $4) limit 1
    ) j ${ROWS_OF('l.id')}
    where $5::text is null or ${STATUS} = $5
  )
  select (select count(*) from scanned) as scanned, (select id from scanned order by id limit 1) as last_id, w.*
  from (select 1) one left join matching w on true order by w.id desc`,
})
const scans = (ofAccount: boolean): Readonly<Record<Status | 'any', Statement>> => ({
  any: scan('any', ofAccount),
  pending: scan('pending', ofAccount),
  assigned: scan('assigned', ofAccount),
  completed: scan('any', ofAccount),
  failed: scan('any', ofAccount),
})
const SCAN = scans(false)
const SCAN_OF_ACCOUNT = scans(true)

const FIND: Statement = {
  repeatable: true,
  name: 'find job',
  text: `select ${SUMMARY}, coalesce(o.deaths, q.deaths, 0) as deaths, j.response_format, o.receipt,
      q.turn, q.route, q.waits_since_ms
    from jobs j ${ROWS_OF('j.id')} where j.id = $1::uuid`,
}
const CONTENT: Statement = {
  repeatable: true,
  name: 'job content',
  text: `select j.cache_ttl_s, o.settled_at_ms, c.due_at_ms, j.messages, j.response_format, o.content, o.error, o.receipt
    from jobs j ${ROWS_OF('j.id')} where j.id = $1::uuid`,
}
