/** Reads in SQLite: a job as its account may see it, and the answers kept for identical jobs. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { JobRecord } from '../../job/job-record.ts'
import { cacheHitOf, type Expiry, expiresAtMs } from '../expiry.ts'
import type { EndedJob } from '../store.ts'

export class SqliteReading {
  readonly #job: StatementSync
  readonly #ended: StatementSync
  readonly #held: StatementSync
  readonly #answer: StatementSync
  readonly #answers: StatementSync

  constructor(db: DatabaseSync) {
    this.#job = db.prepare(
      `select j.status, j.created_at_ms, j.settled_at_ms, j.cache_ttl_s, o.content, o.error, c.due_at_ms
       from jobs j left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
       where j.id = ? and j.account = ?`,
    )
    this.#ended = db.prepare(
      `select j.status, j.created_at_ms, o.content, o.error, o.usage
       from jobs j join outcomes o on o.seq = j.seq where j.id = ?`,
    )
    this.#held = db.prepare('select id, attempt from jobs indexed by jobs_held where node = ?')
    this.#held.setReturnArrays(true)
    this.#answer = db.prepare(
      `select o.content from kept_answers k join outcomes o on o.seq = k.seq
       where k.seq = ? and k.fingerprint = ? and k.until_ms > ?`,
    )
    this.#answers = db.prepare(
      'select seq, fingerprint, until_ms from kept_answers where seq > ? order by seq limit ?',
    )
    this.#answers.setReturnArrays(true)
  }

  job(account: string, jobId: string, { nowMs, retentionMs }: Expiry): JobRecord | null {
    const row = this.#job.get(jobId, account)
    if (!row) return null
    if (row.settled_at_ms !== null && row.due_at_ms === null) {
      const end = expiresAtMs(Number(row.settled_at_ms), Number(row.cache_ttl_s), retentionMs)
      if (end <= nowMs) return null
    }
    return recordOf(jobId, row)
  }

  endedJobs(jobIds: readonly string[]): EndedJob[] {
    return jobIds.flatMap((jobId) => {
      const row = this.#ended.get(jobId)
      return row ? [{ ...recordOf(jobId, row), cacheHit: cacheHitOf(String(row.usage)) }] : []
    })
  }

  /** Ids and attempts. */
  heldBy(node: string): [string, number][] {
    return this.#held.all(node) as unknown as [string, number][]
  }

  keptAnswer(seq: number, fingerprint: string, nowMs: number): string | null {
    const row = this.#answer.get(seq, fingerprint, nowMs)
    return row ? String(row.content) : null
  }

  /** The entries after the given row, as `[seq, fingerprint, untilMs]`, for the index in memory. */
  keptAnswersAfter(seq: number, limit: number): [number, string, number][] {
    return this.#answers.all(seq, limit) as unknown as [number, string, number][]
  }
}

function recordOf(jobId: string, row: Readonly<Record<string, unknown>>): JobRecord {
  return {
    id: jobId,
    status: row.status as JobRecord['status'],
    createdAtMs: Number(row.created_at_ms),
    contentJson: row.content as string | null,
    errorJson: row.error as string | null,
  }
}
