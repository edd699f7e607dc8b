/** Owed callbacks in SQLite. Synchronous, inside a transaction of the storage thread. */
import type { DatabaseSync } from 'node:sqlite'
import type { DueCallback } from '../callback-store.ts'
import type { Cell } from './wire.ts'

export class SqliteCallbacks {
  readonly #statements: ReturnType<typeof prepare>

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db)
  }

  /** Returns rows as `readDueCallback` takes them. */
  take(limit: number, nowMs: number, leaseUntilMs: number): Cell[][] {
    const rows = this.#statements.due.all(nowMs, limit) as unknown as Cell[][]
    for (const row of rows) this.#statements.lease.run(leaseUntilMs, row.pop() ?? null)
    return rows
  }

  record(jobId: string, attempt: number, dueAtMs: number | null, deliveredAtMs: number | null): boolean {
    return this.#statements.record.run(dueAtMs, deliveredAtMs, jobId, attempt).changes > 0
  }
}

function prepare(db: DatabaseSync) {
  const due = db.prepare(
    `select c.attempt + 1, r.callback, c.job_id, j.status, j.created_at_ms, o.content, o.error,
       a.secret, a.previous_secret, a.rotated_at_ms, c.seq
     from callbacks c indexed by callbacks_due
     join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
     join jobs j on j.id = c.job_id join accounts a on a.name = c.account
     where c.due_at_ms <= ? order by c.due_at_ms limit ?`,
  )
  due.setReturnArrays(true)
  return {
    due,
    lease: db.prepare('update callbacks set attempt = attempt + 1, due_at_ms = ? where seq = ?'),
    // The job is looked up by its id first: callbacks are kept by the job's row number.
    record: db.prepare(
      `update callbacks set due_at_ms = ?, delivered_at_ms = ?
       where seq = (select seq from jobs where id = ?) and attempt = ? and due_at_ms is not null`,
    ),
  }
}

export function readDueCallback(row: readonly Cell[]): DueCallback {
  const [attempt, callback, id, status, created, content, error, secret, previous, rotated] = row
  return {
    attempt: Number(attempt),
    callback: JSON.parse(String(callback)) as DueCallback['callback'],
    view: {
      id: String(id),
      status: status as DueCallback['view']['status'],
      createdAtMs: Number(created),
      contentJson: content as string | null,
      errorJson: error as string | null,
    },
    secrets: {
      current: String(secret),
      previous: previous == null ? null : { secret: String(previous), rotatedAtMs: Number(rotated) },
    },
  }
}
