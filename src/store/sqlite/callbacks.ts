/** Owed callbacks in SQLite. Synchronous, inside a transaction of the storage thread. */
import type { DatabaseSync } from 'node:sqlite'
import { readCallbackBody, readDueCallback, URL_PREFIX } from '../callback-rows.ts'
import {
  type CallbackBody,
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

  /** Takes ids and attempts in turn; returns the cells of all, as `readLoaded` takes them. */
  load(wanted: readonly Cell[]): Cell[] {
    const cells: Cell[] = []
    for (let at = 0; at < wanted.length; at += 2) {
      const row = this.#statements.load.get(wanted[at] ?? null, wanted[at + 1] ?? null)
      cells.push(...((row as unknown as Cell[] | undefined) ?? NOT_LOADED))
    }
    return cells
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

/** What is selected of a callback that is due, as `readTaken` reads it. SQLite knows the lengths without reading the texts. */
const TAKEN = `c.job_id, c.attempt + 1, c.tries + 1, c.account, c.owed_since_ms, substr(r.callback, 1, ${URL_PREFIX}),
  octet_length(r.callback) + coalesce(octet_length(o.content), octet_length(o.error), 0)`

/** What is selected of its body, as `readLoaded` reads it. */
const LOADED = `j.id, r.callback, j.status, j.created_at_ms, o.content, o.error,
  a.secret, a.previous_secret, a.rotated_at_ms`

const NOT_LOADED: readonly Cell[] = Array(9).fill(null)

/** Rows cross between threads as arrays, which costs a fraction of what objects do. */
export function readTaken(row: readonly Cell[]): DueCallback {
  const [job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes] = row
  return readDueCallback({ job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes })
}

/** The body at that index; null where none was found. */
export function readLoaded(cells: readonly Cell[], index: number): CallbackBody | null {
  const row = cells.slice(index * NOT_LOADED.length, (index + 1) * NOT_LOADED.length)
  const [job_id, callback, status, created_at_ms, content, error, secret, previous_secret, rotated_at_ms] =
    row
  if (job_id == null) return null
  const job = { job_id, callback, status, created_at_ms, content, error }
  return readCallbackBody({ ...job, secret, previous_secret, rotated_at_ms })
}

function prepare(db: DatabaseSync) {
  const columns = `${TAKEN}, c.seq`
  const due = db.prepare(
    `select ${columns} from callbacks c indexed by callbacks_due
       join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
       where c.lane = ? and c.due_at_ms <= ? order by c.due_at_ms limit ?`,
  )
  const postponed = db.prepare(
    `select ${columns} from jobs j join callbacks c on c.seq = j.seq
     join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
     where j.id = ? and c.attempt = ? and c.due_at_ms is not null and not c.under_way`,
  )
  const load = db.prepare(
    `select ${LOADED} from jobs j join callbacks c on c.seq = j.seq
     join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq join accounts a on a.name = c.account
     where j.id = ? and c.attempt = ? and c.due_at_ms is not null and c.under_way`,
  )
  due.setReturnArrays(true)
  postponed.setReturnArrays(true)
  load.setReturnArrays(true)
  return {
    due,
    postponed,
    load,
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
