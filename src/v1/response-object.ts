/** Builds the response object of OpenAI's API, as JSON text, from a job and the record that is stored with it. */

import { jobIdMs, readJobId } from '../job/job-id.ts'
import { endingOf, hasEnded, type JobRecord } from '../job/job-record.ts'
import type { JobOptions } from '../job/options.ts'
import { formatParts, splitOptions, splitRecord } from '../job/response-format.ts'
import { answerOf, tokensOf } from './answers.ts'
import type { ResponseRecord } from './response-fields.ts'

/** The parts of the stored request that appear in the response object. */
export interface StoredRequest {
  readonly model: string
  /** The response format as it is stored: with the options and the record of the request. */
  readonly responseFormatJson: string
  /** JSON text: a string, or null. */
  readonly instructionsJson: string
}

export const ID_PREFIX = 'resp_'

/** If the job has instructions, the JSON text of its messages begins with this text. */
export const BEFORE_INSTRUCTIONS = '[{"role":"system","content":'

/** Returns the job ID in a response ID; null for a text that is not a response ID. */
export function jobIdOf(responseId: string): string | null {
  return responseId.startsWith(ID_PREFIX) ? readJobId(responseId.slice(ID_PREFIX.length)) : null
}

/** Returns null if the job was not created by POST /v1/responses. */
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
  // The fields are joined as text, because answers, instructions and schemas already are JSON text.
  return `${JSON.stringify(fields).slice(0, -1)},"instructions":${instructionsJson},"text":{"format":${format}${length}},"output":[${output}]}`
}

function statusOf(job: JobRecord): Status {
  if (hasEnded(job)) return endingOf(job)
  return job.status === 'assigned' ? 'in_progress' : 'queued'
}

/**
 * Returns the output item with the answer, as JSON text, and why the answer is incomplete. The item is empty if there is no
 * answer.
 */
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

/** OpenAI has no more specific codes for a failed model server, so the message has the details. */
function errorOf({ errorJson }: JobRecord) {
  const { message, upstream_message } = JSON.parse(errorJson ?? '{}')
  return { code: 'server_error', message: upstream_message ? `${message} ${upstream_message}` : message }
}

function usageOf(job: JobRecord) {
  // OpenAI's clients expect no `usage` before the response has ended.
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
