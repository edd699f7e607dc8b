/** What operators see of jobs in a SQLite file. Synchronous, and no call of it holds the thread for long. */
import type { DatabaseSync } from 'node:sqlite'
import type { Status } from '../../job/job.ts'
import type { Expiry } from '../expiry.ts'
import type { JobContent, JobDetails } from '../job-records.ts'
import {
  ERROR_HEAD,
  hasExpired,
  type JobChunk,
  type JobScan,
  readJobContent,
  readJobDetails,
} from '../job-search.ts'

/** Jobs in a slice: two milliseconds of the thread. */
export const SLICE_ROWS = 500

export class SqliteJobRecords {
  readonly #db: DatabaseSync

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  look({ account, status, model, fromId, beforeId, rows }: JobScan): JobChunk {
    const source = `${sourceOf(status)} order by id desc limit ?3`
    const bounds = [beforeId, fromId, rows] as const
    const bound = this.#db
      .prepare(`select count(*) as looked, min(id) as lastId from (${source})`)
      .get(...bounds)
    const looked = Number(bound?.looked)
    if (looked === 0) return { scanned: looked, lastId: null, matches: [] }
    const wanted = this.#db
      .prepare(
        `select ${SUMMARY} from (${source}) s cross join jobs j on j.id = s.id
           left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
         where (?4 is null or j.account = ?4) and (?5 is null or j.model = ?5) and (?6 is null or j.status = ?6)
         order by s.id desc`,
      )
      .all(...bounds, account, model, status)
    return { scanned: looked, lastId: String(bound?.lastId), matches: wanted.map((row) => ({ ...row })) }
  }

  find(jobId: string, expiry: Expiry): JobDetails | null {
    const row = this.#one(`${SUMMARY}, j.deaths, r.response_format, o.receipt`, jobId)
    return row && !hasExpired(row, expiry) ? readJobDetails(row) : null
  }

  content(jobId: string, expiry: Expiry): JobContent | null {
    const columns = 'j.settled_at_ms, j.cache_ttl_s, c.due_at_ms, r.messages, r.response_format'
    const row = this.#one(`${columns}, o.content, o.error, o.receipt`, jobId)
    return row && !hasExpired(row, expiry) ? readJobContent(row) : null
  }

  #one(columns: string, jobId: string) {
    return this.#db
      .prepare(
        `select ${columns} from jobs j join requests r on r.seq = j.seq
           left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
         where j.id = ?`,
      )
      .get(jobId)
  }
}

const SUMMARY = `j.id, j.account, j.tier, j.model, j.status, j.created_at_ms, j.claimed_at_ms, j.settled_at_ms, j.attempt,
  j.cache_ttl_s, o.usage, substr(o.error, 1, ${ERROR_HEAD}) as error_head, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms`

const RANGE = 'id < ?1 and id >= ?2'

/** Jobs that have not ended are found by indexes that hold no others, however many have ended since. */
function sourceOf(status: Status | null): string {
  if (status === 'pending')
    return `select id from jobs indexed by jobs_by_age where turn is not null and ${RANGE}`
  if (status !== 'assigned') return `select id from jobs where ${RANGE}`
  return `select id from jobs indexed by jobs_held where node is not null and ${RANGE}
    union all select id from jobs indexed by jobs_returned where turn is not null and attempt > 0 and ${RANGE}`
}
