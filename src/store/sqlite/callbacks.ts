/** Callbacks that are owed, in SQLite. */
import { readCallbackBody, readDueCallback, URL_PREFIX } from '../callback-rows.ts'
import {
  type CallbackBody,
  type CallbackDepth,
  DELIVERY_QUEUES,
  type DeferredCallback,
  type DueCallback,
  MAX_ATTEMPTS_LENGTH,
  MAX_COUNTED,
  type TakeCallbacks,
  type TakeDeferred,
} from '../callback-store.ts'
import { numberOf, numberOrNull } from '../rows.ts'
import type { Cell, OpenFile, ServedFile } from './open-file.ts'
import { read, write } from './operation.ts'

export const callbackOperations = {
  /** Returns rows as `readDue` reads them. */
  takeCallbacks: write(
    (file: ServedFile, { node, queue, limit, nowMs, leaseUntilMs }: TakeCallbacks): Cell[][] => {
      const rows = file.cells(DUE, DELIVERY_QUEUES.indexOf(queue), nowMs, limit)
      return lease(file, rows, node, leaseUntilMs)
    },
  ),

  /** Returns rows as `readDue` reads them. */
  takeDeferred: write((file: ServedFile, { node, deferred, leaseUntilMs }: TakeDeferred): Cell[][] => {
    const rows = deferred.flatMap(({ jobId, attempts }) => file.cells(DEFERRED, jobId, attempts))
    return lease(file, rows, node, leaseUntilMs)
  }),

  /** Returns a row as `readBody` reads it. */
  loadCallback: read((file: ServedFile, jobId: string, attempt: number): Cell[] | null => {
    const [row] = file.cells(BODY, jobId, attempt)
    return row ?? null
  }),

  recordCallback: write(
    (
      file: ServedFile,
      jobId: string,
      attempt: number,
      line: string,
      dueAtMs: number | null,
      deliveredAtMs: number | null,
      failedAtMs: number | null,
      uncounted: number,
    ): boolean => {
      const cells = [dueAtMs, deliveredAtMs, failedAtMs, uncounted, line] as const
      return file.prepare(RECORD).run(...cells, jobId, attempt).changes > 0
    },
  ),

  deferCallbacks: write((file: ServedFile, node: string, deferred: readonly DeferredCallback[]): void => {
    for (const { jobId, attempt, dueAtMs } of deferred) {
      file.prepare(DEFER).run(dueAtMs, jobId, attempt, node)
    }
  }),

  callbackDepth: read((file: ServedFile): CallbackDepth => {
    const row = file.prepare(DEPTH).get() ?? {}
    return {
      owed: numberOf(row, 'owed'),
      failed: numberOf(row, 'failed'),
      earliestDueMs: numberOrNull(row, 'earliest_due_ms'),
    }
  }),
}

/** @param rows whose last cell is the row number, which is taken away */
function lease(file: OpenFile, rows: Cell[][], node: string, leaseUntilMs: number): Cell[][] {
  const update = file.prepare(LEASE)
  for (const row of rows) update.run(node, leaseUntilMs, row.pop() ?? null)
  return rows
}

/**
 * What `readDue` reads, and the row number, by which the callback is leased. SQLite knows the lengths without reading the
 * texts.
 */
const DUE_COLUMNS = `c.job_id, c.attempt + 1, c.tries + 1, c.account, c.owed_since_ms, substr(r.callback, 1, ${URL_PREFIX}),
  octet_length(r.callback) + coalesce(octet_length(o.content), octet_length(o.error), 0), c.seq`

export function readDue(cells: readonly Cell[]): DueCallback {
  const [job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes] = cells
  return readDueCallback({ job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes })
}

/** What `readBody` reads. */
const BODY_COLUMNS = `j.id, r.callback, j.status, j.created_at_ms, o.content, o.error,
  a.secret, a.previous_secret, a.rotated_at_ms`

export function readBody(cells: readonly Cell[]): CallbackBody {
  const [id, callback, status, created_at_ms, content, error, secret, previous_secret, rotated_at_ms] = cells
  const job = { id, callback, status, created_at_ms, content, error }
  return readCallbackBody({ ...job, secret, previous_secret, rotated_at_ms })
}

const DUE = `
  select ${DUE_COLUMNS} from callbacks c indexed by callbacks_due
  join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
  where c.lane = ? and c.due_at_ms <= ? order by c.due_at_ms limit ?`
const DEFERRED = `
  select ${DUE_COLUMNS} from jobs j join callbacks c on c.seq = j.seq
  join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq
  where j.id = ? and c.attempt = ? and c.due_at_ms is not null and not c.under_way`
const LEASE = `
  update callbacks set attempt = attempt + 1, tries = tries + 1, node = ?, under_way = 1, due_at_ms = ? where seq = ?`
const BODY = `
  select ${BODY_COLUMNS} from jobs j join callbacks c on c.seq = j.seq
  join requests r on r.seq = c.seq join outcomes o on o.seq = c.seq left join accounts a on a.name = c.account
  where j.id = ? and c.attempt = ? and c.due_at_ms is not null and c.under_way`
/** The job is looked up by its id first: callbacks are stored by the job's row number. */
const RECORD = `
  update callbacks set due_at_ms = ?1, delivered_at_ms = ?2, failed_at_ms = ?3, node = null, under_way = 0,
    tries = tries - ?4, lane = case when ?1 is null then lane else 1 end,
    attempts = case when length(attempts) > ${MAX_ATTEMPTS_LENGTH}
      then substr(attempts, instr(attempts, char(10)) + 1) else attempts end || ?5
  where seq = (select seq from jobs where id = ?6) and attempt = ?7 and due_at_ms is not null`
const DEFER = `
  update callbacks set attempt = attempt - 1, tries = tries - 1, under_way = 0, due_at_ms = ?
  where seq = (select seq from jobs where id = ?) and attempt = ? and node = ?`
const DEPTH = `
  select
    (select count(*) from (select 1 from callbacks where due_at_ms is not null limit ${MAX_COUNTED})) as owed,
    (select count(*) from (select 1 from callbacks where failed_at_ms is not null limit ${MAX_COUNTED})) as failed,
    (select min(due) from (
      select min(due_at_ms) as due from callbacks where lane = 0 and due_at_ms is not null
      union all select min(due_at_ms) from callbacks where lane = 1 and due_at_ms is not null
    )) as earliest_due_ms`
