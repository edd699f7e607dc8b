/** A job's row as its account may see it, which every store reads alike. */
import type { Usage } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import { storedTextOrNull } from './compressed-text.ts'
import { type Expiry, expiresAtMs } from './expiry.ts'
import { numberOf, oneOf, type Row, textOf, textOrNull } from './rows.ts'
import type { EndedJob, ReadJob } from './store.ts'

/**
 * The model of a row that only has a callback: the report of a batch's end. In the tables of jobs, it is sent, retried, listed, copied
 * and deleted like the callback of a job. Reads and searches of jobs ignore it.
 */
export const NO_MODEL = ''

/** The condition of a row of `jobs` that is a job. */
export const IS_JOB = `j.model <> '${NO_MODEL}'`

export const STATUSES = ['pending', 'assigned', 'completed', 'failed'] as const

/** Of a row with `id`, `status`, `created_at_ms`, `content`, `error` and `usage`. */
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

/** A row with `bytes` too, the size of content and error, which are loaded only up to a limit. */
export function readWithin(row: Row, maxBytes: number): ReadJob {
  const bytes = numberOf(row, 'bytes')
  return { ...readJobRecord(row), omittedBytes: bytes > maxBytes ? bytes : 0 }
}

/** Larger than any result: SQLite and Postgres store no text of more bytes. */
export const ANY_SIZE = 2 ** 31 - 1

export function readEndedJob(row: Row): EndedJob {
  const usage: Usage = JSON.parse(textOf(row, 'usage'))
  return { ...readJobRecord(row), cacheHit: usage.cache_hit }
}

/** Whether a job can no longer be read, by `settled_at_ms`, `cache_ttl_s` and its callback's `due_at_ms`. */
export function hasExpired(row: Row, { nowMs, retentionMs }: Expiry): boolean {
  if (row.settled_at_ms === null || row.due_at_ms !== null) return false
  const endMs = expiresAtMs(numberOf(row, 'settled_at_ms'), numberOf(row, 'cache_ttl_s'), retentionMs)
  return endMs <= nowMs
}
