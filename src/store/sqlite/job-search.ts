/** Searches jobs in SQLite, for operators. No call blocks the storage thread for long. */
import type { Status } from '../../job/job.ts'
import type { Expiry } from '../expiry.ts'
import { hasExpired } from '../job-rows.ts'
import { ERROR_HEAD, type JobChunk, type JobScan, readJobContent, readJobDetails } from '../job-search.ts'
import type { JobContent, JobDetails } from '../job-search-store.ts'
import { numberOf, textOrNull } from '../rows.ts'
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

/** Jobs in a chunk: two milliseconds of the thread. */
export const CHUNK_ROWS = 500

export const jobSearchOperations = {
  scanJobs: read((file: OpenFile, scan: JobScan): JobChunk => {
    const { account, status, model, fromId, beforeId, rows } = scan
    const source = `${sourceOf(status)} order by id desc limit ?3`
    const range = [beforeId, fromId, rows] as const
    const chunk =
      file.prepare(`select count(*) as scanned, min(id) as last_id from (${source})`).get(...range) ?? {}
    const scanned = numberOf(chunk, 'scanned')
    if (scanned === 0) return { scanned, lastId: null, matches: [] }
    const matches = file
      .prepare(
        `select ${SUMMARY} from (${source}) s cross join jobs j on j.id = s.id
           left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
         where (?4 is null or j.account = ?4) and (?5 is null or j.model = ?5) and (?6 is null or j.status = ?6)
         order by s.id desc`,
      )
      .all(...range, account, model, status)
    return { scanned, lastId: textOrNull(chunk, 'last_id'), matches }
  }),

  findJob: read((file: OpenFile, jobId: string, expiry: Expiry): JobDetails | null => {
    const row = file.prepare(FIND).get(jobId)
    return row && !hasExpired(row, expiry) ? readJobDetails(row) : null
  }),

  jobContent: read((file: OpenFile, jobId: string, expiry: Expiry): JobContent | null => {
    const row = file.prepare(CONTENT).get(jobId)
    return row && !hasExpired(row, expiry) ? readJobContent(row) : null
  }),
}

const SUMMARY = `j.id, j.account, j.tier, j.model, j.status, j.created_at_ms, j.claimed_at_ms, j.settled_at_ms, j.attempt,
  j.cache_ttl_s, o.usage, substr(o.error, 1, ${ERROR_HEAD}) as error_head, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms`

const FROM = `
  from jobs j join requests r on r.seq = j.seq
    left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  where j.id = ?`
const FIND = `select ${SUMMARY}, j.deaths, j.turn, j.route, j.waits_since_ms, r.response_format, o.receipt ${FROM}`
const CONTENT = `
  select j.settled_at_ms, j.cache_ttl_s, c.due_at_ms, r.messages, r.response_format, o.content, o.error, o.receipt ${FROM}`

const RANGE = 'id < ?1 and id >= ?2'

/** Open jobs are found by indexes that hold no others, however many have ended since. */
function sourceOf(status: Status | null): string {
  if (status === 'pending')
    return `select id from jobs indexed by jobs_by_age where turn is not null and ${RANGE}`
  if (status !== 'assigned') return `select id from jobs where ${RANGE}`
  return `select id from jobs indexed by jobs_held where node is not null and ${RANGE}
    union all select id from jobs indexed by jobs_returned where turn is not null and attempt > 0 and ${RANGE}`
}
