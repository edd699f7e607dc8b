/**
 * Both stores share this SQL, which creates, finds, lists and cancels batches, claims and advances those that a node runs, and
 * deletes them.
 */
import { leastJobId } from '../job/job-id.ts'
import { readCaps } from './accounts.ts'
import {
  type AccountLimits,
  type BatchEnd,
  type BatchLine,
  type BatchReport,
  type BatchSearch,
  type BatchStep,
  ENDED_STATUSES,
  type FileExtension,
  type JobRequest,
  MAX_STORED_BATCHES,
  type NewBatch,
  OPEN_STATUSES,
  OUTPUT_PURPOSE,
  type StoredBatch,
} from './batch-store.ts'
import type { Dialect } from './dialect.ts'
import { extendFile } from './files.ts'
import { numberOf, numberOrNull, oneOf, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, raw, read, repeatableWrite, type Steps, sql, write } from './sql.ts'

const COLUMNS = sql`id, account, version, status, endpoint, input_file_id, output_file_id, error_file_id, about, progress,
  created_at_ms, deadline_ms, cancelling_at_ms`
/** Equals the condition of the partial index `batches_open`. Otherwise the database would not use that index. */
const IS_OPEN = sql`remove_at_ms is null`
/** Orders by ID without the index of IDs, which also contains the many batches that have ended. */
const OPEN_IN_ORDER = sql`id || ''`
/**
 * Beyond its limit, a node runs the oldest batches of at most this many accounts, because each batch may take 256 KiB of
 * memory.
 */
const MAX_OLDEST = 400

export const batchOperations = ({ idsOf, isOneOf, job, joinJob, liveNodes, lockAccount }: Dialect) => ({
  createBatch: write(function* (
    batch: NewBatch,
    maxOpen: number,
    retriedSinceMs: number | null = null,
    maxStored: number = MAX_STORED_BATCHES,
  ): Steps<string | null> {
    const { id, account, endpoint, inputFileId, aboutJson, createdAtMs, deadlineMs } = batch
    yield lockAccount(account)
    if (retriedSinceMs !== null) {
      // The time in the ID is compared, because in SQLite `created_at_ms` comes after the problems of the batch, which may be
      // large.
      const [earlier] = yield sql`
        select id from batches where account = ${account} and id >= ${leastJobId(retriedSinceMs)}
          and input_file_id = ${inputFileId} and endpoint = ${endpoint} and about = ${aboutJson}
          and status not in ('failed', 'cancelling', 'cancelled')
        order by id desc limit 1`
      if (earlier) return textOf(earlier, 'id')
    }
    const [row = {}] =
      yield sql`select count(*) as open from batches where account = ${account} and ${IS_OPEN}`
    if (numberOf(row, 'open') >= maxOpen) return null
    // Two batches are deleted for each new one, so that the number falls if it was too high, for example because of an earlier
    // version.
    yield sql`
      delete from batches where not ${IS_OPEN} and id in (
        select id from batches where account = ${account} order by id desc limit 2 offset ${maxStored - 1}
      )`
    yield sql`
      insert into batches (id, account, version, status, endpoint, input_file_id, about, progress, created_at_ms, deadline_ms)
      values (${id}, ${account}, 0, 'validating', ${endpoint}, ${inputFileId}, ${aboutJson}, '', ${createdAtMs}, ${deadlineMs})`
    return id
  }),

  findBatch: read(function* (account: string, batchId: string): Steps<StoredBatch | null> {
    const [row] = yield sql`select ${COLUMNS} from batches where id = ${batchId} and account = ${account}`
    return row ? readBatch(row) : null
  }),

  findAnyBatch: read(function* (batchId: string): Steps<StoredBatch | null> {
    const [row] = yield sql`select ${COLUMNS} from batches where id = ${batchId}`
    return row ? readBatch(row) : null
  }),

  listBatches: read(function* (search: BatchSearch): Steps<StoredBatch[]> {
    const { account, onlyOpen = false, afterBatchId, limit } = search
    const which = allOf(
      account === undefined ? undefined : sql`account = ${account}`,
      onlyOpen ? IS_OPEN : undefined,
      afterBatchId === undefined ? undefined : sql`id < ${afterBatchId}`,
    )
    const order = onlyOpen ? OPEN_IN_ORDER : sql`id`
    return (yield sql`select ${COLUMNS} from batches where ${which} order by ${order} desc limit ${limit}`).map(
      readBatch,
    )
  }),

  cancelBatch: write(function* (account: string, batchId: string, nowMs: number): Steps<StoredBatch | null> {
    yield sql`
      update batches set status = 'cancelling', cancelling_at_ms = ${nowMs}, version = version + 1
      where id = ${batchId} and account = ${account} and status in ('validating', 'in_progress')`
    const [row] = yield sql`select ${COLUMNS} from batches where id = ${batchId} and account = ${account}`
    return row ? readBatch(row) : null
  }),

  claimBatches: write(function* (node: string, limit: number): Steps<StoredBatch[]> {
    const isFree = sql`${IS_OPEN} and (node is null or (node <> ${node} and node not in (${liveNodes})))`
    yield sql`
      update batches set node = ${node}, version = version + 1
      where ${isFree} and (
        id in (select id from batches where ${isFree} order by ${OPEN_IN_ORDER} limit ${limit})
        or id in (select min(id) from batches where ${IS_OPEN} group by account order by min(id) limit ${raw(MAX_OLDEST)})
      )`
    return (yield sql`select ${COLUMNS} from batches where ${IS_OPEN} and node = ${node} order by ${OPEN_IN_ORDER}`).map(
      readBatch,
    )
  }),

  linesOfBatch: read(function* (batchId: string): Steps<BatchLine[]> {
    const rows = yield sql`
      select line, custom_id, job_id from batch_lines where batch_id = ${batchId} order by line`
    return rows.map((row) => ({
      line: numberOf(row, 'line'),
      customId: textOf(row, 'custom_id'),
      jobId: textOf(row, 'job_id'),
    }))
  }),

  deleteBatchesOf: write(function* (account: string): Steps<void> {
    // On Postgres, the deletion waits for a step that is being stored, so the next statement sees the lines of that step.
    const deleted = yield sql`delete from batches where account = ${account} returning id`
    if (deleted.length === 0) return
    yield sql`delete from batch_lines where batch_id ${isOneOf(deleted.map((row) => textOf(row, 'id')))}`
  }),

  requestsOf: read(function* (jobIds: readonly string[]): Steps<JobRequest[]> {
    const rows = yield sql`
      select j.id, j.model, ${job.request}.response_format
      from (${idsOf(jobIds)}) one ${joinJob(sql`one.id`)} where j.id is not null`
    return rows.map((row) => ({
      jobId: textOf(row, 'id'),
      model: textOf(row, 'model'),
      responseFormatJson: textOf(row, 'response_format'),
    }))
  }),

  findOwner: read(function* (account: string): Steps<AccountLimits | null> {
    const [row] = yield sql`
      select tier, suspended_at_ms, cap_jobs, cap_tokens, cap_open_jobs, cap_stored_bytes, cap_cost
      from accounts where name = ${account}`
    if (!row) return null
    return {
      tier: textOf(row, 'tier'),
      suspendedAtMs: numberOrNull(row, 'suspended_at_ms'),
      caps: readCaps(row),
    }
  }),
})

export const advanceBatch = ({ isOneOf, linesOf }: Dialect, owe: (report: BatchReport) => Steps<void>) =>
  write(function* (step: BatchStep): Steps<boolean> {
    const { batchId, node, version, status, progressJson, started, endedJobIds, forgottenKeys } = step
    const { output, errors, nowMs, end } = step
    const [row] = yield sql`
      update batches set version = version + 1, status = ${status}, progress = ${progressJson},
        remove_at_ms = ${end?.removeAtMs ?? null}, output_file_id = coalesce(output_file_id, ${output?.fileId ?? null}),
        error_file_id = coalesce(error_file_id, ${errors?.fileId ?? null})
      where id = ${batchId} and node = ${node} and version = ${version} and ${IS_OPEN}
      returning account, created_at_ms, output_file_id, error_file_id`
    if (!row) return false
    const account = textOf(row, 'account')
    if (started.length > 0) {
      yield sql`
        insert into batch_lines (batch_id, line, custom_id, job_id)
        select ${batchId}, s.line, s.custom_id, s.job_id from (${linesOf(started)}) s`
    }
    if (endedJobIds.length > 0) {
      yield sql`delete from batch_lines where batch_id = ${batchId} and job_id ${isOneOf(endedJobIds)}`
    }
    if (forgottenKeys.length > 0) {
      yield sql`delete from idempotency where account = ${account} and key ${isOneOf(forgottenKeys)}`
    }
    yield* extend(output, textOrNull(row, 'output_file_id'), account, nowMs)
    yield* extend(errors, textOrNull(row, 'error_file_id'), account, nowMs)
    if (end !== null) {
      yield* complete(textOrNull(row, 'output_file_id'), end.outputName, end)
      yield* complete(textOrNull(row, 'error_file_id'), end.errorName, end)
      const { callback } = end
      const createdAtMs = numberOf(row, 'created_at_ms')
      if (callback !== null) yield* owe({ batchId, account, callback, createdAtMs, nowMs })
    }
    return true
  })

export const purgeBatches = repeatableWrite(function* (nowMs: number): Steps<void> {
  yield sql`
    delete from batches where id in (
      select id from batches where remove_at_ms <= ${nowMs} order by remove_at_ms limit ${raw(PURGED)})`
})
const PURGED = 100

function* extend(
  extension: FileExtension | null,
  fileId: string | null,
  account: string,
  nowMs: number,
): Steps<void> {
  if (extension === null || fileId === null) return
  yield* extendFile({ id: fileId, account, createdAtMs: nowMs }, extension.content)
}

function* complete(fileId: string | null, name: string, { filesExpireAtMs }: BatchEnd): Steps<void> {
  if (fileId === null) return
  yield sql`
    update files set complete = true, filename = ${name}, purpose = ${OUTPUT_PURPOSE}, remove_at_ms = ${filesExpireAtMs}
    where id = ${fileId} and not complete and remove_at_ms is null`
}

function readBatch(row: Row): StoredBatch {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    version: numberOf(row, 'version'),
    status: oneOf(row, 'status', [...OPEN_STATUSES, ...ENDED_STATUSES]),
    endpoint: textOf(row, 'endpoint'),
    inputFileId: textOf(row, 'input_file_id'),
    outputFileId: textOrNull(row, 'output_file_id'),
    errorFileId: textOrNull(row, 'error_file_id'),
    aboutJson: textOf(row, 'about'),
    progressJson: textOf(row, 'progress'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    deadlineMs: numberOf(row, 'deadline_ms'),
    cancellingAtMs: numberOrNull(row, 'cancelling_at_ms'),
  }
}
