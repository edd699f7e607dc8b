/** Stepping in, in SQLite: cancelling and deleting. Synchronous, inside the caller's transaction. */
import type { DatabaseSync } from 'node:sqlite'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
  type CancelJobs,
  type Cancelled,
  type Deleted,
  type DeletedJobs,
} from '../admin-action-store.ts'
import type { Claim } from '../node-store.ts'
import type { SqliteUsage } from './usage.ts'

/** Jobs that one step of a deletion looks at: a few milliseconds of the file. */
const WALKED = 2000
/** Cancelled jobs that are told at once. */
const TOLD = 1000

export class SqliteInterventions {
  readonly #statements: ReturnType<typeof prepare>
  readonly #usage: SqliteUsage

  constructor(db: DatabaseSync, usage: SqliteUsage) {
    this.#statements = prepare(db)
    this.#usage = usage
  }

  cancelJob(jobId: string, nowMs: number): Cancelled {
    const job = this.#statements.find.get(jobId)
    if (!job) return 'unknown'
    if (job.settled_at_ms !== null) return 'ended before'
    this.#cancel(jobId, nowMs)
    return 'cancelled'
  }

  cancelJobs({ account, running, beforeJobId, limit, nowMs }: CancelJobs): number {
    const rows = this.#statements.open.all(account, beforeJobId, running ? 1 : 0, limit)
    for (const row of rows) this.#cancel(String(row.id), nowMs)
    return rows.length
  }

  /** The same rows that settling writes, and one that tells the server. */
  #cancel(jobId: string, nowMs: number): void {
    const s = this.#statements
    const job = s.end.get(nowMs, jobId)
    if (!job) throw new Error(`job ${jobId} is not there to be cancelled`)
    const seq = Number(job.seq)
    const account = String(job.account)
    s.outcome.run(seq, CANCELLED_ERROR_JSON, CANCELLED_USAGE_JSON, CANCELLED_RECEIPT_JSON)
    if (job.has_callback) s.owe.run(seq, jobId, account, nowMs)
    s.tell.run(jobId, Number(job.attempt))
    const usageJson = CANCELLED_USAGE_JSON
    this.#usage.note({ account, model: String(job.model), failed: true, usageJson, nowMs })
  }

  takeCancelled(): Claim[] {
    const rows = this.#statements.told.all(TOLD)
    return rows.map((row) => ({ jobId: String(row.job_id), attempt: Number(row.attempt) }))
  }

  deleteJob(jobId: string): Deleted {
    const job = this.#statements.find.get(jobId)
    if (!job) return 'unknown'
    if (job.settled_at_ms === null) return 'not ended'
    this.#delete(jobId, Number(job.seq))
    return 'deleted'
  }

  deleteJobsOf(account: string, afterJobId: string): DeletedJobs {
    const rows = this.#statements.walk.all(afterJobId, WALKED)
    const mine = rows.filter((row) => row.account === account)
    const ended = mine.filter((row) => row.settled_at_ms !== null)
    for (const row of ended) this.#delete(String(row.id), Number(row.seq))
    const next = rows.length === WALKED ? String(rows.at(-1)?.id) : null
    return { deleted: ended.length, open: mine.length - ended.length, next }
  }

  #delete(jobId: string, seq: number): void {
    for (const statement of this.#statements.deleteRows) statement.run(seq)
    this.#statements.deleteJob.run(jobId)
  }

  deleteAccount(account: string): boolean {
    for (const statement of this.#statements.deleteOfAccount) statement.run(account)
    return this.#statements.deleteAccount.run(account).changes > 0
  }
}

function prepare(db: DatabaseSync) {
  return {
    find: db.prepare('select seq, settled_at_ms from jobs where id = ?'),
    open: db.prepare(
      `select id from jobs indexed by jobs_waiting_by_account
         where turn is not null and account = ?1 and id < ?2
       union all
       select id from jobs indexed by jobs_held where node is not null and account = ?1 and id < ?2 and ?3
       limit ?4`,
    ),
    end: db.prepare(
      `update jobs set status = 'failed', settled_at_ms = ?, turn = null, node = null
       where id = ? and settled_at_ms is null returning seq, account, model, attempt, has_callback`,
    ),
    outcome: db.prepare(
      'insert into outcomes (seq, content, error, usage, receipt) values (?, null, ?, ?, ?)',
    ),
    owe: db.prepare(
      'insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms) values (?1, ?2, ?3, ?4, ?4)',
    ),
    tell: db.prepare('insert or replace into cancelled_jobs (job_id, attempt) values (?, ?)'),
    told: db.prepare(
      `delete from cancelled_jobs where job_id in (select job_id from cancelled_jobs order by job_id limit ?)
       returning job_id, attempt`,
    ),
    walk: db.prepare('select id, seq, account, settled_at_ms from jobs where id > ? order by id limit ?'),
    deleteRows: ['requests', 'outcomes', 'callbacks', 'kept_answers'].map((table) =>
      db.prepare(`delete from ${table} where seq = ?`),
    ),
    deleteJob: db.prepare('delete from jobs where id = ?'),
    deleteOfAccount: ['keys', 'turns', 'idempotency', 'usage', 'callbacks'].map((table) =>
      db.prepare(`delete from ${table} where account = ?`),
    ),
    deleteAccount: db.prepare('delete from accounts where name = ?'),
  }
}
