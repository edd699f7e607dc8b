/** Reads the rows of jobs that their accounts may see, for both stores. */
import type { Usage } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import { storedTextOrNull } from './compressed-text.ts'
import { type Expiry, expiresAtMs } from './expiry.ts'
import { numberOf, oneOf, type Row, textOf, textOrNull } from './rows.ts'
import type { EndedJob, ReadJob } from './store.ts'

/**
 * A row of `jobs` with this model carries the callback that reports the end of a batch, so that this callback is sent, listed,
 * copied and deleted like that of a job. Most reads of jobs ignore the row (`IS_JOB`).
 */
export const NO_MODEL = ''

export const IS_JOB = `j.model <> '${NO_MODEL}'`

export const STATUSES = ['pending', 'assigned', 'completed', 'failed'] as const

export function readJobRecord(row: Row): JobRecord {
  return {
    id: textOf(row, 'id'),
    status: oneOf(row, 'status', STATUSES),
    createdAtMs: numberOf(row, 'created_at_ms'),
    contentJson: storedTextOrNull(row, 'content'),
    errorJson: textOrNull(row, 'error'),
    usageJson: textOrNull(row, 'usage'),
  }
}

/** If the row's `bytes` exceed `maxBytes`, the query must have left out content and error. */
export function readWithin(row: Row, maxBytes: number): ReadJob {
  const bytes = numberOf(row, 'bytes')
  return { ...readJobRecord(row), omittedBytes: bytes > maxBytes ? bytes : 0 }
}

/** As a limit, this leaves out no result, because neither database stores longer texts. */
export const ANY_SIZE = 2 ** 31 - 1

export function readEndedJob(row: Row): EndedJob {
  const usage: Usage = JSON.parse(textOf(row, 'usage'))
  return { ...readJobRecord(row), cacheHit: usage.cache_hit }
}

/**
 * The row must have `settled_at_ms`, `cache_ttl_s`, and the `due_at_ms` of the callback. A job with a pending callback does not
 * expire.
 */
export function hasExpired(row: Row, { nowMs, retentionMs }: Expiry): boolean {
  if (row.settled_at_ms === null || row.due_at_ms !== null) return false
  const endMs = expiresAtMs(numberOf(row, 'settled_at_ms'), numberOf(row, 'cache_ttl_s'), retentionMs)
  return endMs <= nowMs
}
