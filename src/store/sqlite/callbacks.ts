/** Leases and records pending callbacks in SQLite, and stores the callback that reports the end of a batch. */
import type { BatchReport, BatchStep } from '../batch-store.ts'
import { advanceBatch } from '../batches.ts'
import { readCallbackBody, readDueCallback, URL_PREFIX } from '../callback-records.ts'
import {
  type CallbackBody,
  DELIVERY_QUEUES,
  type DeferredCallback,
  type DueCallback,
  MAX_ATTEMPTS_LENGTH,
  type TakeCallbacks,
  type TakeDeferred,
} from '../callback-store.ts'
import { NO_MODEL } from '../job-rows.ts'
import { type Steps, sql } from '../sql.ts'
import { requestBytes, resultBytesOf } from '../stored-bytes.ts'
import { SQLITE } from './dialect.ts'
import type { Cell, OpenFile, ServedFile } from './open-file.ts'
import { read, runSteps, write } from './operation.ts'
import { asText, textOf } from './texts.ts'

export const callbackOperations = {
  takeCallbacks: write(
    (file: ServedFile, { node, queue, limit, nowMs, leaseUntilMs }: TakeCallbacks): Cell[][] => {
      const rows = file.cells(DUE, DELIVERY_QUEUES.indexOf(queue), nowMs, limit)
      return lease(file, rows, node, leaseUntilMs)
    },
  ),

  takeDeferred: write((file: ServedFile, { node, deferred, leaseUntilMs }: TakeDeferred): Cell[][] => {
    const rows = deferred.flatMap(({ jobId, attempts }) => file.cells(DEFERRED, jobId, attempts))
    return lease(file, rows, node, leaseUntilMs)
  }),

  loadCallback: read((file: ServedFile, jobId: string, attempt: number): Cell[] | null => {
    const [row] = file.cells(BODY, jobId, attempt)
    if (row) row[CONTENT] = asText(row[CONTENT])
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

  advanceBatch: write((file: ServedFile, step: BatchStep): boolean =>
    runSteps(file, advanceBatch(SQLITE, (report) => reportEnd(file, report)).steps(step)),
  ),
}

/** @param rows rows of `DUE_COLUMNS`; this removes the row number at the end of each */
function lease(file: OpenFile, rows: Cell[][], node: string, leaseUntilMs: number): Cell[][] {
  const update = file.prepare(LEASE)
  for (const row of rows) update.run(node, leaseUntilMs, row.pop() ?? null)
  return rows
}

/**
 * `readDue` reads these columns by position, except the row number at the end, which `LEASE` needs. SQLite computes the lengths
 * without reading the texts.
 */
const DUE_COLUMNS = `c.job_id, c.attempt + 1, c.tries + 1, c.account, c.owed_since_ms, substr(r.callback, 1, ${URL_PREFIX}),
  octet_length(r.callback) + ${resultBytesOf('o')}, c.seq`

export function readDue(cells: readonly Cell[]): DueCallback {
  const [job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes] = cells
  return readDueCallback({ job_id, attempt, tries, account, owed_since_ms, callback_prefix, body_bytes })
}

const CONTENT = 5
/** `readBody` reads these columns by position. */
const BODY_COLUMNS = `j.id, r.callback, j.status, j.created_at_ms, j.settled_at_ms, ${textOf('o', 'content')}, o.error, o.usage,
  a.secret, a.previous_secret, a.rotated_at_ms`

export function readBody(cells: readonly Cell[]): CallbackBody {
  const [id, callback, status, created_at_ms, settled_at_ms, content, error, usage, ...secrets] = cells
  const [secret, previous_secret, rotated_at_ms] = secrets
  const job = { id, callback, status, created_at_ms, settled_at_ms, content, error, usage }
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
/** Callbacks have an index by row number, but none by job ID. So the statement finds the row number of the job first. */
const RECORD = `
  update callbacks set due_at_ms = ?1, delivered_at_ms = ?2, failed_at_ms = ?3, node = null, under_way = 0,
    tries = tries - ?4, lane = case when ?1 is null then lane else 1 end,
    attempts = case when length(attempts) > ${MAX_ATTEMPTS_LENGTH}
      then substr(attempts, instr(attempts, char(10)) + 1) else attempts end || ?5
  where seq = (select seq from jobs where id = ?6) and attempt = ?7 and due_at_ms is not null`
const DEFER = `
  update callbacks set attempt = attempt - 1, tries = tries - 1, under_way = 0, due_at_ms = ?
  where seq = (select seq from jobs where id = ?) and attempt = ? and node = ?`

/**
 * Stores the callback that reports the end of a batch. Every callback belongs to a job, so this also stores a finished job
 * without a model (`NO_MODEL`).
 */
function* reportEnd(
  file: ServedFile,
  { batchId, account, callback, createdAtMs, nowMs }: BatchReport,
): Steps<void> {
  const seq = file.queue.takeSeq()
  yield sql`
    insert into jobs (id, seq, account, tier, model, status, attempt, deaths, cache_ttl_s, input_tokens, has_callback,
      created_at_ms, claimed_at_ms, settled_at_ms)
    values (${batchId}, ${seq}, ${account}, '', ${NO_MODEL}, 'completed', 0, 0, 0, 0, 1, ${createdAtMs}, ${nowMs}, ${nowMs})`
  yield sql`insert into requests (seq, messages, response_format, callback) values (${seq}, '[]', '{}', ${callback})`
  yield sql`insert into outcomes (seq, usage, receipt) values (${seq}, '{}', '{}')`
  yield sql`insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms)
    values (${seq}, ${batchId}, ${account}, ${nowMs}, ${nowMs})`
  file.quotas.add(account, 0, requestBytes('[]', '{}', callback) + 2, 0)
}
