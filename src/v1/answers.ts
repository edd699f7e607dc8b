/** Turns a job into what callers of `/v1` get: a chat completion or a response object, as JSON text. */

import { jobIdMs, readJobId } from '../job/job-id.ts'
import { endingOf, hasEnded, type JobRecord, usageView } from '../job/job-record.ts'
import type { JobOptions } from '../job/options.ts'
import { formatParts, splitOptions, splitRecord } from '../job/response-format.ts'
import { failureOf, type V1Error } from './errors.ts'
import type { ResponseRecord } from './response-fields.ts'

export interface TextAnswer {
  readonly kind: 'answer'
  /** `textJson` is JSON text: a string, such as `"Hello"`. */
  readonly textJson: string
  readonly finish: 'stop' | 'length' | 'content_filter'
}

export interface Tokens {
  readonly input: number
  readonly cached: number
  readonly output: number
  /** The cost is in millionths of the currency, and absent if the model has no price. */
  readonly cost?: number
}

/** @param isJson true if the job's format is JSON; callers then get the JSON text as a string */
export function answerOf(
  record: JobRecord,
  isJson: boolean,
): TextAnswer | { kind: 'failed'; error: V1Error } {
  const { contentJson, errorJson, usageJson } = record
  const wasCut = usageJson?.includes('"finish_reason":"length"') ?? false
  if (contentJson !== null) {
    const textJson = isJson ? JSON.stringify(contentJson) : contentJson
    return { kind: 'answer', textJson, finish: wasCut ? 'length' : 'stop' }
  }
  const { code, raw_text = '' } = JSON.parse(errorJson ?? '{}')
  if (code === 'content_policy_violation') return { kind: 'answer', textJson: '""', finish: 'content_filter' }
  // In Parley's own API, truncated JSON fails the job. OpenAI's callers expect the truncated text with `length`.
  if (wasCut) return { kind: 'answer', textJson: JSON.stringify(raw_text), finish: 'length' }
  return { kind: 'failed', error: failureOf(record) }
}

export function tokensOf({ status, usageJson }: JobRecord): Tokens {
  if (usageJson === null) return { input: 0, cached: 0, output: 0 }
  const { input_tokens, cached_input_tokens, output_tokens, cost } = usageView(status, JSON.parse(usageJson))
  const tokens = { input: input_tokens, cached: cached_input_tokens, output: output_tokens }
  return cost === undefined ? tokens : { ...tokens, cost }
}

/** The answer is already JSON text, so the completion is joined from texts. */
export function completionJson(record: JobRecord, model: string, { textJson, finish }: TextAnswer): string {
  const { input, cached, output } = tokensOf(record)
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  }
  const created = Math.floor(record.createdAtMs / 1000)
  return `{"id":"chatcmpl-${record.id}","object":"chat.completion","created":${created},"model":${JSON.stringify(model)},"choices":[{"index":0,"message":{"role":"assistant","content":${textJson},"refusal":null},"finish_reason":"${finish}","logprobs":null}],"usage":${JSON.stringify(usage)}}`
}

export interface StoredRequest {
  readonly model: string
  /** The stored text also contains the options and the record of the request. */
  readonly responseFormatJson: string
  /** `instructionsJson` is JSON text: a string or null. */
  readonly instructionsJson: string
}

export const ID_PREFIX = 'resp_'

/** If a response has instructions, the JSON text of its job's messages begins like this. */
export const BEFORE_INSTRUCTIONS = '[{"role":"system","content":'

/** Returns null for a text that is not a response ID. */
export function jobIdOf(responseId: string): string | null {
  return responseId.startsWith(ID_PREFIX) ? readJobId(responseId.slice(ID_PREFIX.length)) : null
}

/** Returns null if the job's request was not for `/v1/responses`. */
export function recordOf(responseFormatJson: string): ResponseRecord | null {
  const record = JSON.parse(splitRecord(responseFormatJson).recordJson ?? 'null')
  return record?.route === 'responses' ? record : null
}

type Status = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'incomplete'

export function responseJson(job: JobRecord, request: StoredRequest): string {
  const { model, responseFormatJson, instructionsJson } = request
  const record = recordOf(responseFormatJson)
  const options: JobOptions = JSON.parse(splitOptions(responseFormatJson).optionsJson ?? '{}')
  const { temperature = 1, top_p = 1, max_tokens = null, reasoning_effort = null, verbosity } = options
  const status = statusOf(job)
  const { output, incompleteReason } = outcomeOf(job, status, responseFormatJson)
  const fields = {
    id: `${ID_PREFIX}${job.id}`,
    object: 'response',
    created_at: Math.floor(jobIdMs(job.id) / 1000),
    status,
    background: record?.background ?? false,
    error: status === 'failed' ? errorOf(job) : null,
    incomplete_details: incompleteReason === null ? null : { reason: incompleteReason },
    model,
    max_output_tokens: max_tokens,
    metadata: record?.metadata ?? {},
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: reasoning_effort, summary: null },
    temperature,
    tool_choice: 'auto',
    tools: [],
    top_p,
    truncation: 'disabled',
    usage: usageOf(job),
    access_programs: null,
  }
  const format = formatJson(responseFormatJson, record)
  const length = verbosity ? `,"verbosity":"${verbosity}"` : ''
  // Answers, instructions and schemas are already JSON text, so the fields are joined as text.
  return `${JSON.stringify(fields).slice(0, -1)},"instructions":${instructionsJson},"text":{"format":${format}${length}},"output":[${output}]}`
}

function statusOf(job: JobRecord): Status {
  if (hasEnded(job)) return endingOf(job)
  return job.status === 'assigned' ? 'in_progress' : 'queued'
}

/** Returns the output item as JSON text, empty if the job has no answer, and why the answer is incomplete. */
function outcomeOf(job: JobRecord, status: Status, responseFormatJson: string) {
  const isJson = formatParts(responseFormatJson).kind !== 'text'
  const answer = status === 'completed' || status === 'incomplete' ? answerOf(job, isJson) : null
  if (answer?.kind !== 'answer') return { output: '', incompleteReason: null }
  const { finish, textJson } = answer
  const isWithheld = finish === 'content_filter'
  const item = `{"id":"msg_${job.id}","type":"message","role":"assistant","status":"${status}","content":[{"type":"output_text","text":${textJson},"annotations":[],"logprobs":[]}]}`
  return {
    output: isWithheld ? '' : item,
    incompleteReason: isWithheld ? finish : finish === 'length' ? 'max_output_tokens' : null,
  }
}

/** OpenAI's codes do not match Parley's, so all failures are `server_error`, and the details are in the message. */
function errorOf({ errorJson }: JobRecord) {
  const { message, upstream_message } = JSON.parse(errorJson ?? '{}')
  return { code: 'server_error', message: upstream_message ? `${message} ${upstream_message}` : message }
}

function usageOf(job: JobRecord) {
  // OpenAI's clients expect `usage` only in a response that has ended.
  if (!hasEnded(job)) return undefined
  const { input, cached, output } = tokensOf(job)
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  }
}

function formatJson(responseFormatJson: string, record: ResponseRecord | null): string {
  const parts = formatParts(responseFormatJson)
  if (parts.kind === 'text') return '{"type":"text"}'
  if (!record?.format) return '{"type":"json_object"}'
  const named = JSON.stringify({ type: 'json_schema', ...record.format }).slice(0, -1)
  return `${named},"schema":${parts.kind === 'schema' ? parts.schemaJson : '{}'}}`
}
