/** Turns jobs and outcomes into column arrays, which one statement expands with `unnest`. */
import { wholeMs } from '../../clock.ts'
import { errorJson, type Job } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import type { Priority } from '../../job/priority.ts'
import { type StoredText, storedTextOf } from '../compressed-text.ts'
import { numberOf, type Row, textOf, textOrNull } from '../rows.ts'
import type { Claimed, JobTexts, Settlement } from '../store.ts'
import { STORED_TEXT_TYPES, storedTextColumns, textArray } from './texts.ts'

export function weightOfJob({ messagesJson, callbackJson }: Job): number {
  return 500 + messagesJson.length + (callbackJson?.length ?? 0)
}

export function weightOfSettlement({ outcome, receiptJson }: Settlement): number {
  const contentLength = outcome.status === 'completed' ? outcome.contentJson.length : receiptJson.length
  return 300 + contentLength + receiptJson.length
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
  'bigint',
  'bigint',
  ...STORED_TEXT_TYPES,
  'text',
  'text',
] as const
export const NEW_JOB_NAMES =
  'id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, priority, deadline_ms, reserved, messages_zstd, messages_bytes, messages, response_format, callback'

export function newJobColumns(jobs: readonly Job[], messages: readonly StoredText[]): unknown[] {
  const deadlines: (number | null)[] = []
  const priorities: (Priority | null)[] = []
  const reserved: (number | null)[] = []
  for (const { priority = null, deadlineMs = null, reserved: estimate = null } of jobs) {
    priorities.push(priority)
    deadlines.push(deadlineMs)
    reserved.push(estimate)
  }
  return [
    jobs.map((job) => job.id),
    jobs.map((job) => job.account),
    jobs.map((job) => job.tier),
    jobs.map((job) => job.model),
    jobs.map((job) => job.cacheTtlMs / 1000),
    jobs.map((job) => job.inputTokens),
    jobs.map((job) => job.createdAtMs),
    priorities,
    deadlines,
    reserved,
    ...storedTextColumns(messages),
    textArray(jobs.map((job) => job.responseFormatJson)),
    textArray(jobs.map((job) => job.callbackJson)),
  ]
}

export const SETTLEMENT_TYPES = [
  ...['uuid', 'integer', 'text', 'text', 'text', 'text', 'bigint', 'bigint', 'text', 'text'],
  ...['bigint', 'bigint', 'bigint', 'boolean', 'text'],
  ...STORED_TEXT_TYPES,
] as const
export const SETTLEMENT_NAMES = `id, attempt, status, usage, receipt, fingerprint, until_ms, now_ms, model, month,
  calls, input_tokens, output_tokens, cache_hit, error, content_zstd, content_bytes, content`

export function contentOf({ outcome }: Settlement): string | null {
  return outcome.status === 'completed' ? outcome.contentJson : null
}

/** Large columns come last, because the driver copies everything before a parameter that does not fit into its buffer. */
export function settlementColumns(
  settlements: readonly Settlement[],
  contents: readonly StoredText[],
): unknown[] {
  return [
    settlements.map(({ jobId }) => jobId),
    settlements.map(({ attempt }) => attempt),
    settlements.map(({ outcome }) => outcome.status),
    settlements.map(({ usage }) => JSON.stringify(usage)),
    textArray(settlements.map(({ receiptJson }) => receiptJson)),
    settlements.map(({ cache }) => cache?.fingerprint ?? null),
    settlements.map(({ cache }) => Math.ceil(cache?.untilMs ?? 0)),
    settlements.map(({ nowMs }) => nowMs),
    settlements.map(({ model }) => model),
    settlements.map(({ nowMs }) => monthOf(nowMs)),
    settlements.map(({ usage }) => usage.calls),
    settlements.map(({ usage }) => usage.input_tokens),
    settlements.map(({ usage }) => usage.output_tokens),
    settlements.map(({ usage }) => usage.cache_hit),
    textArray(
      settlements.map(({ outcome }) => (outcome.status === 'failed' ? errorJson(outcome.error) : null)),
    ),
    ...storedTextColumns(contents),
  ]
}

/** The result is, for example, `unnest($3::uuid[], $4::text[] …)`, where `from` is 3. */
export function unnest(types: readonly string[], from: number): string {
  return `unnest(${arrays(types, from)})`
}

export function arrays(types: readonly string[], from: number): string {
  return types.map((type, index) => `$${from + index}::${type}[]`).join(', ')
}

/** The texts of the row are null if they are too large to be returned with the claim. */
export function readClaimedJob(row: Row): Claimed['jobs'][number] {
  const earlierJson = textOrNull(row, 'earlier')
  const crashCount = numberOf(row, 'deaths')
  const job = {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    tier: textOf(row, 'tier'),
    model: textOf(row, 'model'),
    cacheTtlMs: wholeMs(numberOf(row, 'cache_ttl_s')),
    inputTokens: numberOf(row, 'input_tokens'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    attempt: numberOf(row, 'attempt'),
    crashCount,
    crashedAlone: crashCount > 0 && numberOf(row, 'crashed_alone') === crashCount,
    ...(earlierJson !== null && { earlierJson }),
    ...(row.priority !== null && { priority: row.priority as Priority }),
    ...(row.deadline_ms !== null && { deadlineMs: numberOf(row, 'deadline_ms') }),
  }
  return row.messages === null ? { ...job, textBytes: numberOf(row, 'bytes') } : { ...job, ...readTexts(row) }
}

export function readTexts(row: Row): JobTexts {
  return {
    messagesJson: storedTextOf(row, 'messages'),
    responseFormatJson: textOf(row, 'response_format'),
    callbackJson: textOrNull(row, 'callback'),
  }
}
