/** How every store searches jobs: in chunks small enough not to delay other operations. */
import type { Status, Usage } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import { formatParts } from '../job/response-format.ts'
import type { CallbackState } from './callback-store.ts'
import { hasExpired, STATUSES } from './job-rows.ts'
import type { JobContent, JobDetails, JobPage, JobSearch, JobSummary } from './job-search-store.ts'
import { AFTER_ALL, BEFORE_ALL, type Chunk, paginate } from './pagination.ts'
import { numberOf, numberOrNull, oneOf, type Row, textOf, textOrNull } from './rows.ts'

/** The range of jobs to scan, newest first, and the filter. */
export interface JobScan {
  readonly account: string | null
  readonly status: Status | null
  readonly model: string | null
  /** The lowest ID to scan. */
  readonly fromId: string
  /** IDs from this one on are not scanned. */
  readonly beforeId: string
  /** How many jobs to scan. */
  readonly rows: number
}

export type JobChunk = Chunk<Row>

/** @param rows jobs per chunk; depends on the cost of a row, and on what has to wait meanwhile */
export async function searchJobsByChunk(
  search: JobSearch,
  rows: number,
  scanJobs: (scan: JobScan) => Promise<JobChunk>,
): Promise<JobPage> {
  const { account = null, status = null, model = null, limit, expiry } = search
  const fromId = search.fromMs === undefined ? BEFORE_ALL : leastJobId(search.fromMs)
  const { items, complete, next } = await paginate<JobSummary>({
    limit,
    chunkRows: rows,
    beforeId: upperBound(search),
    idOf: ({ id }) => id,
    scan: async (beforeId) => {
      const chunk = await scanJobs({ account, status, model, fromId, beforeId, rows })
      const matches = chunk.matches.filter((row) => !hasExpired(row, expiry)).map(readJobSummary)
      return { ...chunk, matches }
    },
  })
  return { jobs: items, complete, next }
}

function upperBound({ toMs, beforeJobId }: JobSearch): string {
  const to = toMs === undefined ? AFTER_ALL : leastJobId(toMs)
  return beforeJobId !== undefined && beforeJobId < to ? beforeJobId : to
}

/** The first characters of a stored error, which hold its code. */
export const ERROR_HEAD = 80

export function readJobSummary(row: Row): JobSummary {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    tier: textOf(row, 'tier'),
    model: textOf(row, 'model'),
    status: oneOf(row, 'status', STATUSES),
    createdAtMs: numberOf(row, 'created_at_ms'),
    claimedAtMs: numberOrNull(row, 'claimed_at_ms'),
    settledAtMs: numberOrNull(row, 'settled_at_ms'),
    attempts: numberOf(row, 'attempt'),
    errorCode: codeOf(textOrNull(row, 'error_head')),
    usage: readUsage(textOrNull(row, 'usage')),
    callback: callbackState(row),
  }
}

export function readJobDetails(row: Row): JobDetails {
  const { kind } = formatParts(textOf(row, 'response_format'))
  return {
    ...readJobSummary(row),
    format: kind === 'schema' ? 'json with schema' : kind,
    crashCount: numberOf(row, 'deaths'),
    queued:
      row.turn === null
        ? null
        : { route: textOf(row, 'route'), waitsSinceMs: numberOrNull(row, 'waits_since_ms') },
    receiptJson: textOrNull(row, 'receipt'),
  }
}

export function readJobContent(row: Row): JobContent {
  return {
    messagesJson: textOf(row, 'messages'),
    responseFormatJson: textOf(row, 'response_format'),
    contentJson: textOrNull(row, 'content'),
    errorJson: textOrNull(row, 'error'),
    receiptJson: textOrNull(row, 'receipt'),
  }
}

function readUsage(json: string | null): Usage | null {
  return json === null ? null : JSON.parse(json)
}

function codeOf(errorHead: string | null): string | null {
  return /^\{"code":"(\w+)"/.exec(errorHead ?? '')?.[1] ?? null
}

function callbackState(row: Row): CallbackState | null {
  if (row.due_at_ms !== null) return 'owed'
  if (row.delivered_at_ms !== null) return 'delivered'
  return row.failed_at_ms === null ? null : 'failed'
}
