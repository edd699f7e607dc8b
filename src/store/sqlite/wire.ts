/**
 * How jobs cross to the storage thread and back: as flat arrays of strings and numbers, because copying those between
 * threads costs a fraction of copying objects.
 */
import { wholeMs } from '../../clock.ts'
import type { Callback, ClaimedJob, Message, ResponseFormat } from '../../job/job.ts'
import { callbackText } from '../callback-rows.ts'
import type { NewJob } from '../store.ts'

export type Cell = string | number | null

/** Columns of one new job, in the order of `newJobRow`. */
export const NEW_JOB_COLUMNS = 12

/** What settling answers instead of a row: somebody else holds the job or has settled it; there is no such job. */
export const STALE = 0
export const GONE = -1

/** Adds a new job's columns to the row. */
export function pushNewJob(row: Cell[], { job, handedOff, step }: NewJob): void {
  row.push(
    job.id,
    job.account,
    job.tier,
    job.model,
    handedOff ? 1 : 0,
    step,
    job.cacheTtlMs / 1000,
    job.inputTokens,
    job.createdAtMs,
    job.messagesJson,
    JSON.stringify(job.responseFormat),
    job.callback === null ? null : callbackText(job.callback),
  )
}

/** What a claim selects, in the order that `readClaimedJob` takes it. */
export const CLAIMED_COLUMNS = `j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens, j.created_at_ms,
  j.attempt, j.deaths, r.messages, r.response_format, r.callback`

export function readClaimedJob(row: readonly Cell[]): ClaimedJob {
  const [id, account, tier, model, ttl, tokens, created, attempt, deaths, messages, format, callback] = row
  return {
    id: String(id),
    account: String(account),
    tier: String(tier),
    model: String(model),
    cacheTtlMs: wholeMs(Number(ttl)),
    inputTokens: Number(tokens),
    createdAtMs: Number(created),
    // The row was read before this claim counted.
    attempt: Number(attempt) + 1,
    crashCount: Number(deaths),
    messages: JSON.parse(String(messages)) as Message[],
    messagesJson: String(messages),
    responseFormat: JSON.parse(String(format)) as ResponseFormat,
    callback: typeof callback === 'string' ? (JSON.parse(callback) as Callback) : null,
  }
}
