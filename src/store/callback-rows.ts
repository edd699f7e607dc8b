/** What every store reads alike from its rows of callbacks. */
import type { Callback } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
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
import { AFTER_ALL, type Chunk, type Page, paginate } from './pagination.ts'

export function searchCallbacksByChunk(
  { state, account, beforeJobId = AFTER_ALL, limit }: CallbackFilter,
  rows: number,
  look: (slice: CallbackScan) => Promise<Chunk<CallbackSummary>>,
): Promise<Page<CallbackSummary>> {
  return paginate<CallbackSummary>({
    limit,
    chunkRows: rows,
    beforeId: beforeJobId,
    idOf: ({ jobId }) => jobId,
    scan: (beforeId) =>
      look({ state: state ?? null, account: account ?? null, beforeId, rows, enough: limit + 1 }),
  })
}

export type CallbackRow = Readonly<Record<string, unknown>>

/**
 * Characters of a stored callback that hold its URL, however long that is: addresses have 8,192 characters at most, each
 * of which JSON may escape with a second one. A text of megabytes is not read for its URL.
 */
export const URL_PREFIX = 2 * 8192 + 100

/** How a callback is stored: the URL comes first, where `urlOf` finds it. */
export function callbackText({ url, headers, payloadJson }: Callback): string {
  return JSON.stringify({ url, headers, payloadJson })
}

/**
 * The URL, from the first `URL_PREFIX` characters of a stored callback. Version 0.1 also stored longer ones, which are never
 * sent: of those it is the beginning.
 */
function urlOf(prefix: unknown): string {
  const [, escaped] = /^\{"url":"([^"\\]*(?:\\.[^"\\]*)*)/.exec(String(prefix)) ?? []
  if (!escaped) throw new Error('a stored callback does not begin with its URL')
  return escaped.includes('\\') ? (JSON.parse(`"${escaped}"`) as string) : escaped
}

/** How an attempt is added to those before it: a line of JSON. */
export function attemptLine(attempt: CallbackAttempt): string {
  return `${JSON.stringify(attempt)}\n`
}

/** What recording an attempt changes, for stores of any kind. */
export function recordCells({ next, nowMs }: AttemptRecord) {
  return {
    dueAtMs: next.kind === 'due' ? next.atMs : null,
    deliveredAtMs: next.kind === 'delivered' ? nowMs : null,
    failedAtMs: next.kind === 'failed' ? nowMs : null,
    uncounted: next.kind === 'due' && !next.counts ? 1 : 0,
  }
}

export function readDueCallback(row: CallbackRow): DueCallback {
  return {
    jobId: String(row.job_id),
    attempt: Number(row.attempt),
    tries: Number(row.tries),
    account: String(row.account),
    url: urlOf(row.callback_prefix),
    bodyBytes: Number(row.body_bytes),
    owedSinceMs: Number(row.owed_since_ms),
  }
}

export function readCallbackBody(row: CallbackRow): CallbackBody {
  return {
    callback: JSON.parse(String(row.callback)) as Callback,
    view: {
      id: String(row.job_id),
      status: row.status as JobRecord['status'],
      createdAtMs: Number(row.created_at_ms),
      contentJson: row.content as string | null,
      errorJson: row.error as string | null,
    },
    secrets: readSecrets(row),
  }
}

export function readSummary(row: CallbackRow): CallbackSummary {
  const owed = row.due_at_ms !== null
  return {
    jobId: String(row.job_id),
    account: String(row.account),
    url: urlOf(row.callback_prefix),
    state: stateOf(row),
    attempts: Number(row.attempt),
    dueAtMs: owed && !isUnderWay(row) ? Number(row.due_at_ms) : null,
    endedAtMs: owed ? null : Number(row.delivered_at_ms ?? row.failed_at_ms),
    last: readAttempts(row).at(-1) ?? null,
  }
}

export function readDetails(row: CallbackRow): CallbackDetails {
  const { headers, payloadJson } = JSON.parse(String(row.callback)) as Callback
  return {
    ...readSummary(row),
    jobStatus: String(row.status),
    headerNames: Object.keys(headers),
    payloadJson,
    underWay: isUnderWay(row),
    log: readAttempts(row),
  }
}

/** SQLite knows no booleans. */
function isUnderWay(row: CallbackRow): boolean {
  return Boolean(row.under_way)
}

function stateOf(row: CallbackRow): CallbackState {
  if (row.due_at_ms !== null) return 'owed'
  return row.delivered_at_ms === null ? 'failed' : 'delivered'
}

function readAttempts(row: CallbackRow): CallbackAttempt[] {
  const lines = String(row.attempts).split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as CallbackAttempt)
}
