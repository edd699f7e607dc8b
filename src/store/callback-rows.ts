/** Rows of callbacks, which every store reads and writes alike. */
import type { Callback } from '../job/job.ts'
import { readSecrets } from './accounts.ts'
import type { AttemptRecord, CallbackAttempt, CallbackBody, DueCallback } from './callback-store.ts'
import { readJobRecord } from './job-rows.ts'
import { numberOf, type Row, textOf } from './rows.ts'

/**
 * Characters of a stored callback that hold its URL, however long that is: addresses have 8,192 characters at most, each
 * of which JSON may escape with a second one. A text of megabytes is not read for its URL.
 */
export const URL_PREFIX = 2 * 8192 + 100

/**
 * The URL, from the first `URL_PREFIX` characters of a stored callback. Version 0.1 also stored longer ones, which are never
 * sent: then this is its beginning.
 */
export function urlOf(row: Row): string {
  const prefix = textOf(row, 'callback_prefix')
  const [, escaped] = /^\{"url":"([^"\\]*(?:\\.[^"\\]*)*)/.exec(prefix) ?? []
  if (!escaped) throw new Error('a stored callback does not begin with its URL')
  return escaped.includes('\\') ? (JSON.parse(`"${escaped}"`) as string) : escaped
}

/** How an attempt is appended to those before it: a line of JSON. */
export function attemptLine(attempt: CallbackAttempt): string {
  return `${JSON.stringify(attempt)}\n`
}

/** The columns that recording an attempt changes. */
export function recordCells({ next, nowMs }: AttemptRecord) {
  return {
    dueAtMs: next.kind === 'due' ? next.atMs : null,
    deliveredAtMs: next.kind === 'delivered' ? nowMs : null,
    failedAtMs: next.kind === 'failed' ? nowMs : null,
    uncounted: next.kind === 'due' && !next.counts ? 1 : 0,
  }
}

/** Of a row with `callback_prefix` and `body_bytes`, whose attempt is the one that was just counted. */
export function readDueCallback(row: Row): DueCallback {
  return {
    jobId: textOf(row, 'job_id'),
    attempt: numberOf(row, 'attempt'),
    tries: numberOf(row, 'tries'),
    account: textOf(row, 'account'),
    url: urlOf(row),
    bodyBytes: numberOf(row, 'body_bytes'),
    owedSinceMs: numberOf(row, 'owed_since_ms'),
  }
}

/** Of a row of the settled job, with the callback and the secrets of its account, if that exists. */
export function readCallbackBody(row: Row): CallbackBody {
  const callback: Callback = JSON.parse(textOf(row, 'callback'))
  return {
    callback,
    view: readJobRecord(row),
    endedAtMs: numberOf(row, 'settled_at_ms'),
    secrets: row.secret === null ? null : readSecrets(row),
  }
}
