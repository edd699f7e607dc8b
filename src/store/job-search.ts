/** How every store searches jobs: in slices, each cheap enough to keep nobody waiting; and what it reads from their rows. */
import type { ResponseFormat, Status, Usage } from '../job/job.ts'
import { leastJobId } from '../job/job-id.ts'
import type { CallbackState } from './callback-store.ts'
import { type Expiry, expiresAtMs } from './ended.ts'
import {
  type JobContent,
  type JobDetails,
  type JobPage,
  type JobSearch,
  type JobSummary,
  MOST_SEARCHED,
} from './job-records.ts'

export type JobRow = Readonly<Record<string, unknown>>

/** Some jobs in the order of their ids, the newest first, and which of them are wanted. */
export interface Slice {
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

export interface Looked {
  readonly looked: number
  /** The last job that was looked at; null where there was none. */
  readonly lastId: string | null
  /** Those that are wanted, newest first. */
  readonly rows: readonly JobRow[]
}

const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

/** @param rows jobs to look at in a slice; it depends on what a row costs, and who waits meanwhile */
export async function searchInSlices(
  search: JobSearch,
  rows: number,
  look: (slice: Slice) => Promise<Looked>,
): Promise<JobPage> {
  const { account = null, status = null, model = null, limit, expiry } = search
  const fromId = search.fromMs === undefined ? BEFORE_ALL : leastJobId(search.fromMs)
  const jobs: JobSummary[] = []
  let beforeId = upperBound(search)
  for (let looked = 0; looked < MOST_SEARCHED; ) {
    const slice = await look({ account, status, model, fromId, beforeId, rows })
    jobs.push(...slice.rows.filter((row) => !hasExpired(row, expiry)).map(readJobSummary))
    if (jobs.length > limit) {
      const page = jobs.slice(0, limit)
      return { jobs: page, complete: true, next: page.at(-1)?.id ?? null }
    }
    if (slice.looked < rows || slice.lastId === null) return { jobs, complete: true, next: null }
    looked += slice.looked
    beforeId = slice.lastId
  }
  return { jobs, complete: false, next: beforeId }
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
    deaths: Number(row.deaths),
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
