/** Rows of callbacks, which every store searches, reads and writes alike. */
import type { Callback } from '../job/job.ts'
import { readSecrets } from './account-rows.ts'
import type {
  AttemptRecord,
  CallbackAttempt,
  CallbackBody,
  CallbackDetails,
  CallbackFilter,
  CallbackScan,
  CallbackState,
  CallbackSummary,
  DueCallback,
} from './callback-store.ts'
import { readJobRecord } from './job-rows.ts'
import { AFTER_ALL, type Chunk, type Page, paginate } from './pagination.ts'
import { booleanOf, numberOf, type Row, textOf } from './rows.ts'

export function searchCallbacksByChunk(
  { state, account, beforeJobId = AFTER_ALL, limit }: CallbackFilter,
  rows: number,
  scanCallbacks: (scan: CallbackScan) => Promise<Chunk<CallbackSummary>>,
): Promise<Page<CallbackSummary>> {
  return paginate<CallbackSummary>({
    limit,
    chunkRows: rows,
    beforeId: beforeJobId,
    idOf: ({ jobId }) => jobId,
    scan: (beforeId) =>
      scanCallbacks({ state: state ?? null, account: account ?? null, beforeId, rows, enough: limit + 1 }),
  })
}

/**
 * Characters of a stored callback that hold its URL, however long that is: addresses have 8,192 characters at most, each
 * of which JSON may escape with a second one. A text of megabytes is not read for its URL.
 */
export const URL_PREFIX = 2 * 8192 + 100

/**
 * The URL, from the first `URL_PREFIX` characters of a stored callback. Version 0.1 also stored longer ones, which are never
 * sent: then this is its beginning.
 */
function urlOf(row: Row): string {
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
  return { callback, view: readJobRecord(row), secrets: row.secret === null ? null : readSecrets(row) }
}

export function readSummary(row: Row): CallbackSummary {
  const state = stateOf(row)
  return {
    jobId: textOf(row, 'job_id'),
    account: textOf(row, 'account'),
    url: urlOf(row),
    state,
    attempts: numberOf(row, 'attempt'),
    dueAtMs: state === 'owed' && !booleanOf(row, 'under_way') ? numberOf(row, 'due_at_ms') : null,
    endedAtMs: state === 'owed' ? null : numberOf(row, `${state}_at_ms`),
    last: readAttempts(row).at(-1) ?? null,
  }
}

/** The same with the whole `callback`. */
export function readDetails(row: Row): CallbackDetails {
  const { headers, payloadJson }: Callback = JSON.parse(textOf(row, 'callback'))
  return {
    ...readSummary(row),
    jobStatus: textOf(row, 'status'),
    headerNames: Object.keys(headers),
    payloadJson,
    inProgress: booleanOf(row, 'under_way'),
    log: readAttempts(row),
  }
}

function stateOf(row: Row): CallbackState {
  if (row.due_at_ms !== null) return 'owed'
  return row.delivered_at_ms === null ? 'failed' : 'delivered'
}

function readAttempts(row: Row): CallbackAttempt[] {
  const lines = textOf(row, 'attempts').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as CallbackAttempt)
}
