/** Reads and writes the rows of callbacks, for both stores. */
import type { Callback } from '../job/job.ts'
import { readSecrets } from './accounts.ts'
import type { AttemptRecord, CallbackAttempt, CallbackBody, DueCallback } from './callback-store.ts'
import { readJobRecord } from './job-rows.ts'
import { numberOf, type Row, textOf } from './rows.ts'

/**
 * How many characters of a stored callback contain its URL: a URL has at most 8,192 characters, and JSON may escape each of
 * them. The rest of the callback can have megabytes.
 */
export const URL_PREFIX = 2 * 8192 + 100

/**
 * Reads the URL from the first `URL_PREFIX` characters of a stored callback. Version 0.1 also stored longer URLs, which are
 * never called; of those, this returns the beginning.
 */
export function urlOf(row: Row): string {
  const prefix = textOf(row, 'callback_prefix')
  const [, escaped] = /^\{"url":"([^"\\]*(?:\\.[^"\\]*)*)/.exec(prefix) ?? []
  if (!escaped) throw new Error('a stored callback does not begin with its URL')
  return escaped.includes('\\') ? (JSON.parse(`"${escaped}"`) as string) : escaped
}

/** One attempt as a line of JSON, which is appended to the log. */
export function attemptLine(attempt: CallbackAttempt): string {
  return `${JSON.stringify(attempt)}\n`
}

/** The columns that change when an attempt is recorded. */
export function recordCells({ next, nowMs }: AttemptRecord) {
  return {
    dueAtMs: next.kind === 'due' ? next.atMs : null,
    deliveredAtMs: next.kind === 'delivered' ? nowMs : null,
    failedAtMs: next.kind === 'failed' ? nowMs : null,
    uncounted: next.kind === 'due' && !next.counts ? 1 : 0,
  }
}

/** Reads a row with `callback_prefix` and `body_bytes`. Its `attempt` includes the attempt that was just counted. */
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

/** Reads a row of the settled job with its callback, and with the account's secrets unless the account was deleted. */
export function readCallbackBody(row: Row): CallbackBody {
  const callback: Callback = JSON.parse(textOf(row, 'callback'))
  return {
    callback,
    view: readJobRecord(row),
    endedAtMs: numberOf(row, 'settled_at_ms'),
    secrets: row.secret === null ? null : readSecrets(row),
  }
}
