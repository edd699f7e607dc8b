/** Deletes what has expired, in steps so small that no write waits long behind one. */
import type { DatabaseSync } from 'node:sqlite'
import { leastJobId } from '../../job/job-id.ts'
import { type Expiry, expiresAtMs } from '../expiry.ts'

/** Rows that one step looks at, of each kind. */
const STEP = 400

export class SqliteExpiry {
  readonly #statements: ReturnType<typeof prepare>
  /** Where the walk through the old jobs has come to. It starts anew when it reaches the young ones. */
  #cursor = ''

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db)
  }

  /** Takes one step; returns whether another would find work now. */
  step(expiry: Expiry): boolean {
    const answers = this.#deleteKeptAnswers(expiry.nowMs)
    const keys = Number(this.#statements.deleteIdempotency.run(expiry.nowMs, STEP).changes)
    const jobs = this.#walkJobs(expiry)
    return answers >= STEP || keys >= STEP || jobs >= STEP
  }

  /** From the oldest on. An entry kept for long holds up the shorter ones behind it by an hour at most (SPEC §2.1). */
  #deleteKeptAnswers(nowMs: number): number {
    return Number(this.#statements.deleteAnswers.run(STEP, nowMs).changes)
  }

  /**
   * Jobs lie in the order of their creation, and none can have expired that is younger than the retention, so the walk
   * is over the oldest rows only. Rows it cannot delete yet are passed over once a round, not once a step.
   */
  #walkJobs({ nowMs, retentionMs }: Expiry): number {
    const s = this.#statements
    const rows = s.oldJobs.all(this.#cursor, leastJobId(nowMs - retentionMs), STEP)
    for (const row of rows) {
      if (row.settled_at_ms === null || row.due_at_ms !== null) continue
      const end = expiresAtMs(Number(row.settled_at_ms), Number(row.cache_ttl_s), retentionMs)
      if (end > nowMs) continue
      const seq = Number(row.seq)
      for (const statement of s.deleteJob) statement.run(seq)
      s.deleteRow.run(String(row.id))
    }
    const last = rows.at(-1)
    this.#cursor = last && rows.length === STEP ? String(last.id) : ''
    return rows.length
  }
}

function prepare(db: DatabaseSync) {
  return {
    deleteAnswers: db.prepare(
      `delete from kept_answers
       where seq in (select seq from kept_answers order by seq limit ?) and until_ms <= ?`,
    ),
    deleteIdempotency: db.prepare(
      `delete from idempotency where (account, key) in
         (select account, key from idempotency where until_ms <= ? order by until_ms limit ?)`,
    ),
    oldJobs: db.prepare(
      `select j.id, j.seq, j.settled_at_ms, j.cache_ttl_s, c.due_at_ms
       from jobs j left join callbacks c on c.seq = j.seq
       where j.id > ? and j.id < ? order by j.id limit ?`,
    ),
    deleteJob: ['requests', 'outcomes', 'callbacks'].map((table) =>
      db.prepare(`delete from ${table} where seq = ?`),
    ),
    deleteRow: db.prepare('delete from jobs where id = ?'),
  }
}
