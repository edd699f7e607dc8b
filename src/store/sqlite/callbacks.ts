/** Owed callbacks in SQLite. Synchronous, inside a transaction of the storage thread. */
import type { DatabaseSync } from 'node:sqlite'
import { readDueCallback } from '../callback-rows.ts'
import {
  type CallbackDepth,
  COUNTED,
  DELIVERY_QUEUES,
  type DeferredCallback,
  type DueCallback,
  MOST_KEPT,
  type TakeCallbacks,
  type TakeDeferred,
} from '../callback-store.ts'
import type { Cell } from './wire.ts'

export class SqliteCallbacks {
  readonly #statements: ReturnType<typeof prepare>

  constructor(db: DatabaseSync) {
    this.#statements = prepare(db)
  }

  /** Returns rows as `readTaken` takes them. */
  take({ node, queue: lane, limit, nowMs, leaseUntilMs }: TakeCallbacks): Cell[][] {
    const rows = this.#statements.due.all(DELIVERY_QUEUES.indexOf(lane), nowMs, limit) as unknown as Cell[][]
    for (const row of rows) this.#statements.lease.run(node, leaseUntilMs, row.pop() ?? null)
    return rows
  }

  /** Returns rows as `readTaken` takes them. */
  takePostponed({ node, postponed, leaseUntilMs }: TakeDeferred): Cell[][] {
    const rows = postponed.flatMap(({ jobId, attempts }) => {
      const row = this.#statements.postponed.get(jobId, attempts) as unknown as Cell[] | undefined
      return row ? [row] : []
    })
    for (const row of rows) this.#statements.lease.run(node, leaseUntilMs, row.pop() ?? null)
    return rows
  }

  record(
    jobId: string,
    attempt: number,
    line: string,
    dueAtMs: Cell,
    deliveredAtMs: Cell,
    failedAtMs: Cell,
    uncounted: number,
  ): boolean {
    const cells = [dueAtMs, deliveredAtMs, failedAtMs, uncounted, line] as const
    return this.#statements.record.run(...cells, jobId, attempt).changes > 0
  }

  postpone(node: string, postponed: readonly DeferredCallback[]): void {
    for (const { jobId, attempt, dueAtMs } of postponed) {
      this.#statements.postpone.run(dueAtMs, jobId, attempt, node)
    }
  }

  /** Only one server uses the file, so whoever else still has one in hand is dead. */
  reclaim(node: string, nowMs: number): void {
    this.#statements.reclaim.run(nowMs, node)
  }

  depth(): CallbackDepth {
    const row = this.#statements.depth.get() ?? {}
    const earliest = row.earliest_due_ms
    return {
      owed: Number(row.owed),
      failed: Number(row.failed),
      earliestDueMs: earliest == null ? null : Number(earliest),
    }
  }
}

/** What is selected of a callback that is due, under the names that every store has for it. */
const TAKEN = {
  job_id: 'c.job_id',
  attempt: 'c.attempt + 1',
  tries: 'c.tries + 1',
  account: 'c.account',
  owed_since_ms: 'c.owed_since_ms',
  callback: 'r.callback',
  status: 'j.status',
  created_at_ms: 'j.created_at_ms',
  content: 'o.content',
  error: 'o.error',
  secret: 'a.secret',
  previous_secret: 'a.previous_secret',
  rotated_at_ms: 'a.rotated_at_ms',
}
const TAKEN_NAMES = Object.keys(TAKEN)

/** Rows cross between threads as arrays, which costs a fraction of what objects do. */
export function readTaken(row: readonly Cell[]): DueCallback {
  return readDueCallback(Object.fromEntries(TAKEN_NAMES.map((name, index) => [name, row[index]])))
}

function prepare(db: DatabaseSync) {
  const columns = `${Object.values(TAKEN).join(', ')}, c.seq`
  const due = db.prepare(
    `select ${columns} from callbacks c indexed by callbacks_due
       join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
       join jobs j on j.id = c.job_id join accounts a on a.name = c.account
       where c.lane = ? and c.due_at_ms <= ? order by c.due_at_ms limit ?`,
  )
  const postponed = db.prepare(
    `select ${columns} from jobs j join callbacks c on c.seq = j.seq
     join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq join accounts a on a.name = c.account
     where j.id = ? and c.attempt = ? and c.due_at_ms is not null and not c.under_way`,
  )
  due.setReturnArrays(true)
  postponed.setReturnArrays(true)
  return {
    due,
    postponed,
    lease: db.prepare(
      `update callbacks set attempt = attempt + 1, tries = tries + 1, node = ?, under_way = 1, due_at_ms = ?
       where seq = ?`,
    ),
    // The job is looked up by its id first: callbacks are kept by the job's row number.
    record: db.prepare(
      `update callbacks set due_at_ms = ?1, delivered_at_ms = ?2, failed_at_ms = ?3, node = null, under_way = 0,
         tries = tries - ?4, lane = case when ?1 is null then lane else 1 end,
         attempts = case when length(attempts) > ${MOST_KEPT}
           then substr(attempts, instr(attempts, char(10)) + 1) else attempts end || ?5
       where seq = (select seq from jobs where id = ?6) and attempt = ?7 and due_at_ms is not null`,
    ),
    postpone: db.prepare(
      `update callbacks set attempt = attempt - 1, tries = tries - 1, under_way = 0, due_at_ms = ?
       where seq = (select seq from jobs where id = ?) and attempt = ? and node = ?`,
    ),
    reclaim: db.prepare(
      `update callbacks indexed by callbacks_due set node = null, under_way = 0, due_at_ms = min(due_at_ms, ?)
       where due_at_ms is not null and node is not null and node <> ?`,
    ),
    depth: db.prepare(
      `select
         (select count(*) from (select 1 from callbacks where due_at_ms is not null limit ${COUNTED})) as owed,
         (select count(*) from (select 1 from callbacks where failed_at_ms is not null limit ${COUNTED})) as failed,
         (select min(due) from (
           select min(due_at_ms) as due from callbacks where lane = 0 and due_at_ms is not null
           union all select min(due_at_ms) from callbacks where lane = 1 and due_at_ms is not null
         )) as earliest_due_ms`,
    ),
  }
}
