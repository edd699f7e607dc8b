/** Jobs and outcomes as columns: arrays that one statement takes apart with `unnest`, however many rows there are. */
import { wholeMs } from '../../clock.ts'
import type { Callback, ClaimedJob, Job, Message, ResponseFormat } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import { callbackText } from '../callback-rows.ts'
import type { Settlement } from '../store.ts'
import type { Row } from './database.ts'

/** Texts that a job brings, in characters: about what it weighs in a statement. */
export function weightOfJob({ messagesJson, callback }: Job): number {
  return 500 + messagesJson.length + (callback?.payloadJson.length ?? 0)
}

export const NEW_JOB_TYPES = [
  'uuid',
  'text',
  'text',
  'text',
  'double precision',
  'bigint',
  'bigint',
  'text',
  'text',
  'text',
] as const
export const NEW_JOB_NAMES =
  'id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback'

export function newJobColumns(jobs: readonly Job[]): unknown[][] {
  return [
    jobs.map((job) => job.id),
    jobs.map((job) => job.account),
    jobs.map((job) => job.tier),
    jobs.map((job) => job.model),
    jobs.map((job) => job.cacheTtlMs / 1000),
    jobs.map((job) => job.inputTokens),
    jobs.map((job) => job.createdAtMs),
    jobs.map((job) => job.messagesJson),
    jobs.map((job) => JSON.stringify(job.responseFormat)),
    jobs.map((job) => (job.callback === null ? null : callbackText(job.callback))),
  ]
}

export const SETTLEMENT_TYPES = [
  'uuid',
  'integer',
  'text',
  'text',
  'text',
  'text',
  'text',
  'text',
  'bigint',
  'bigint',
  'text',
  'text',
  'bigint',
  'bigint',
  'bigint',
  'boolean',
] as const
export const SETTLEMENT_NAMES = `id, attempt, status, content, error, usage, receipt, fingerprint, until_ms, now_ms,
  model, month, calls, input_tokens, output_tokens, cache_hit`

export function settlementColumns(settlements: readonly Settlement[]): unknown[][] {
  return [
    settlements.map(({ jobId }) => jobId),
    settlements.map(({ attempt }) => attempt),
    settlements.map(({ outcome }) => outcome.status),
    settlements.map(({ outcome }) => (outcome.status === 'completed' ? outcome.contentJson : null)),
    settlements.map(({ outcome }) => (outcome.status === 'failed' ? JSON.stringify(outcome.error) : null)),
    settlements.map(({ usage }) => JSON.stringify(usage)),
    settlements.map(({ receiptJson }) => receiptJson),
    settlements.map(({ cache: keep }) => keep?.fingerprint ?? null),
    settlements.map(({ cache: keep }) => Math.ceil(keep?.untilMs ?? 0)),
    settlements.map(({ nowMs }) => nowMs),
    settlements.map(({ model }) => model),
    settlements.map(({ nowMs }) => monthOf(nowMs)),
    settlements.map(({ usage }) => usage.calls),
    settlements.map(({ usage }) => usage.input_tokens),
    settlements.map(({ usage }) => usage.output_tokens),
    settlements.map(({ usage }) => usage.cache_hit),
  ]
}

/** `unnest($3::uuid[], $4::text[] …)`, the first parameter being number `from`. */
export function unnest(types: readonly string[], from: number): string {
  return `unnest(${types.map((type, index) => `$${from + index}::${type}[]`).join(', ')})`
}

/** A row with the columns of `jobs`, and `attempt` and `deaths` as they are after the claim. */
export function readClaimedJob(row: Row): ClaimedJob {
  const messagesJson = String(row.messages)
  return {
    id: String(row.id),
    account: String(row.account),
    tier: String(row.tier),
    model: String(row.model),
    cacheTtlMs: wholeMs(Number(row.cache_ttl_s)),
    inputTokens: Number(row.input_tokens),
    createdAtMs: Number(row.created_at_ms),
    attempt: Number(row.attempt),
    crashCount: Number(row.deaths),
    messages: JSON.parse(messagesJson) as Message[],
    messagesJson,
    responseFormat: JSON.parse(String(row.response_format)) as ResponseFormat,
    callback: typeof row.callback === 'string' ? (JSON.parse(row.callback) as Callback) : null,
  }
}
