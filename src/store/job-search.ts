/** How every store searches jobs: in slices, each cheap enough to keep nobody waiting; and what it reads from their rows. */
import type { ResponseFormat, Status, Usage } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { CallbackState } from './callback-store.ts'
import { type Expiry, expiresAtMs } from './expiry.ts'
import type { JobContent, JobDetails, JobPage, JobSearch, JobSummary } from './job-records.ts'
import { AFTER_ALL, BEFORE_ALL, type Chunk, paginate } from './pagination.ts'

export type JobRow = Readonly<Record<string, unknown>>

/** Some jobs in the order of their ids, the newest first, and which of them are wanted. */
export interface JobScan {
  readonly account: string | null
  readonly status: Status | null
  readonly model: string | null
  /** The least id that is looked at. */
  readonly fromId: string
  /** Ids from this one on are not looked at. */
  readonly beforeId: string
  /** Jobs to look at. */
  readonly rows: number
}

export type JobChunk = Chunk<JobRow>

/** @param rows jobs to look at in a slice; it depends on what a row costs, and who waits meanwhile */
export async function searchJobsByChunk(
  search: JobSearch,
  rows: number,
  look: (slice: JobScan) => Promise<JobChunk>,
): Promise<JobPage> {
  const { account = null, status = null, model = null, limit, expiry } = search
  const fromId = search.fromMs === undefined ? BEFORE_ALL : leastJobId(search.fromMs)
  const {
    items: found,
    complete,
    next,
  } = await paginate<JobSummary>({
    limit,
    chunkRows: rows,
    beforeId: upperBound(search),
    idOf: ({ id }) => id,
    scan: async (beforeId) => {
      const slice = await look({ account, status, model, fromId, beforeId, rows })
      return {
        ...slice,
        matches: slice.matches.filter((row) => !hasExpired(row, expiry)).map(readJobSummary),
      }
    },
  })
  return { jobs: found, complete, next }
}

function upperBound({ toMs, beforeJobId }: JobSearch): string {
  const to = toMs === undefined ? AFTER_ALL : leastJobId(toMs)
  return beforeJobId !== undefined && beforeJobId < to ? beforeJobId : to
}

/** Jobs that have ended, and whose callback is not owed. */
export function hasExpired(row: JobRow, { nowMs, retentionMs }: Expiry): boolean {
  if (row.settled_at_ms === null || row.due_at_ms !== null) return false
  return expiresAtMs(Number(row.settled_at_ms), Number(row.cache_ttl_s), retentionMs) <= nowMs
}

/** Characters of a stored error that hold its code, which is written first. */
export const ERROR_HEAD = 80

export function readJobSummary(row: JobRow): JobSummary {
  return {
    id: String(row.id),
    account: String(row.account),
    tier: String(row.tier),
    model: String(row.model),
    status: row.status as Status,
    createdAtMs: Number(row.created_at_ms),
    claimedAtMs: row.claimed_at_ms as number | null,
    settledAtMs: row.settled_at_ms as number | null,
    attempts: Number(row.attempt),
    errorCode: codeOf(row.error_head),
    usage: typeof row.usage === 'string' ? (JSON.parse(row.usage) as Usage) : null,
    callback: callbackState(row),
  }
}

export function readJobDetails(row: JobRow): JobDetails {
  const format = JSON.parse(String(row.response_format)) as ResponseFormat
  return {
    ...readJobSummary(row),
    format: format.format === 'text' ? 'text' : format.schema ? 'json with schema' : 'json',
    crashCount: Number(row.deaths),
    receiptJson: row.receipt as string | null,
  }
}

export function readJobContent(row: JobRow): JobContent {
  return {
    messagesJson: String(row.messages),
    responseFormatJson: String(row.response_format),
    contentJson: row.content as string | null,
    errorJson: row.error as string | null,
    receiptJson: row.receipt as string | null,
  }
}

function codeOf(head: unknown): string | null {
  return /^\{"code":"(\w+)"/.exec(String(head))?.[1] ?? null
}

function callbackState(row: JobRow): CallbackState | null {
  if (row.due_at_ms !== null) return 'owed'
  if (row.delivered_at_ms !== null) return 'delivered'
  return row.failed_at_ms === null ? null : 'failed'
}
