/** Converts lines of OpenAI's batch files to jobs, and results of jobs to lines of OpenAI's output files. */
import type { BatchJob, Message, Options, ResponseFormat } from '../../../client/src/index.ts'
import { jobOptions } from '../../job/options.ts'
import { ANY_OBJECT } from '../../job/response-format.ts'
import { isObject } from '../../json-object.ts'
import type { Row } from './journal.ts'

type Fields = Readonly<Record<string, unknown>>

const URL_PATH = '/v1/chat/completions'
const ROLES = ['system', 'developer', 'assistant', 'user']
const LINE_FIELDS = ['custom_id', 'method', 'url', 'body']
const OPTIONS: readonly string[] = Object.keys(jobOptions.properties)
const BODY_FIELDS = [
  ...['model', 'messages', 'response_format', 'max_completion_tokens', 'metadata'],
  ...OPTIONS,
]
const MESSAGE_FIELDS = ['role', 'content', 'name']

/** Each function returns true for values that do not affect the answer. A field with such a value is ignored. */
const IGNORED_FIELDS: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => value === 1,
  prompt_cache_key: () => true,
  safety_identifier: () => true,
  service_tier: () => true,
  store: () => true,
  stream: (value) => value === false,
  user: () => true,
}

export function isOpenAiLine(line: Fields): boolean {
  return 'body' in line && ('url' in line || 'method' in line)
}

/**
 * Returns a problem in the form `field: rule`, or null if the line can be converted to a job.
 * @param drop the fields of the body to ignore
 */
export function openAiProblem(line: Fields, drop: readonly string[]): string | null {
  if (typeof line.custom_id !== 'string') return 'custom_id: must be a string'
  if (line.method !== 'POST') return 'method: must be POST'
  if (line.url !== URL_PATH)
    return `url: must be ${URL_PATH}, the only endpoint of OpenAI's that Parley supports`
  const unknown = Object.keys(line).find((name) => !LINE_FIELDS.includes(name))
  if (unknown !== undefined) return `${unknown}: is not a known field`
  const { body } = line
  if (!isObject(body)) return 'body: must be an object'
  return bodyProblem(body, drop) ?? messagesProblem(body.messages) ?? formatProblem(body.response_format)
}

function bodyProblem(body: Fields, drop: readonly string[]): string | null {
  const unsupported = Object.entries(body).find(
    ([name, value]) =>
      ![...BODY_FIELDS, ...drop].includes(name) && value !== null && !IGNORED_FIELDS[name]?.(value),
  )
  if (!unsupported) return null
  return `body.${unsupported[0]}: is not supported; pass --drop ${unsupported[0]} to ignore it`
}

function messagesProblem(messages: unknown): string | null {
  if (!Array.isArray(messages)) return 'body.messages: must be an array'
  // The routes below `/v1` have the same rule: names matter only if they distinguish participants with the same role.
  const names = new Map<unknown, unknown>()
  for (const [index, message] of messages.entries()) {
    const field = `body.messages[${index}]`
    if (!isObject(message)) return `${field}: must be an object`
    if (!ROLES.includes(String(message.role))) {
      return `${field}.role: must be one of ${ROLES.join(', ')}`
    }
    if (typeof message.content !== 'string') return `${field}.content: must be a string`
    const { role, name = null } = message
    if (!names.has(role)) names.set(role, name)
    else if (names.get(role) !== name)
      return `${field}.name: must be the same in all messages with the role ${role}`
    const unknown = Object.entries(message).find(
      ([name, value]) => !MESSAGE_FIELDS.includes(name) && value !== null,
    )
    if (unknown) return `${field}.${unknown[0]}: is not a known field of a message`
  }
  return null
}

function formatProblem(format: unknown): string | null {
  if (format === undefined || format === null) return null
  const type = isObject(format) ? format.type : undefined
  if (type === 'text') return null
  if (type === 'json_object') {
    const { schema = null } = format as Fields
    return schema === null || isObject(schema) ? null : 'body.response_format.schema: must be an object'
  }
  if (type !== 'json_schema') {
    return 'body.response_format.type: must be one of text, json_object, json_schema'
  }
  const { json_schema } = format as Fields
  if (isObject(json_schema) && isObject(json_schema.schema)) return null
  return 'body.response_format.json_schema.schema: must be an object'
}

/** The line must have passed `openAiProblem`. Wrong options are left to the validation of the job. */
export function openAiJob({ body }: Fields, drop: readonly string[]): BatchJob {
  const { model, messages, response_format, metadata } = body as Fields
  const options = optionsOf(body as Fields, drop)
  return {
    model: model as string,
    messages: (messages as Message[]).map(({ role, content }) => ({ role, content })),
    response_format: formatOf(response_format as Fields | null | undefined),
    ...(Object.keys(options).length > 0 && { options }),
    ...(isObject(metadata) && !drop.includes('metadata') && { metadata: metadata as Record<string, string> }),
  }
}

function optionsOf(body: Fields, drop: readonly string[]): Options {
  const kept = (name: string) => (drop.includes(name) ? null : (body[name] ?? null))
  const max_tokens = kept('max_completion_tokens') ?? kept('max_tokens')
  const options = OPTIONS.map((name) => [name, name === 'max_tokens' ? max_tokens : kept(name)] as const)
  return Object.fromEntries(options.filter(([, value]) => value !== null))
}

function formatOf(format: Fields | null | undefined): ResponseFormat {
  // The routes below `/v1` do the same: the answer must be an object, and some libraries put a schema next to the type.
  if (format?.type === 'json_object')
    return { format: 'json', schema: (format.schema ?? ANY_OBJECT) as Fields }
  if (format?.type !== 'json_schema') return { format: 'text' }
  const { schema, description } = format.json_schema as { schema: Fields; description?: unknown }
  const described = typeof description === 'string' && !('description' in schema)
  return { format: 'json', schema: described ? { ...schema, description } : schema }
}

/** The line has no `usage`, because the row has no token counts. */
export function openAiRow({ custom_id, job_id, result, error }: Row, job: OpenAiContext): object {
  const id = `batch_req_${job_id ?? `line_${job.line}`}`
  if (result === null) {
    const { code, message } = error ?? { code: 'unknown', message: 'The job has no result.' }
    return { id, custom_id: custom_id ?? null, response: null, error: { code, message } }
  }
  const { response_content: content } = result
  const message = {
    role: 'assistant',
    content: typeof content === 'string' && job.format === 'text' ? content : JSON.stringify(content),
    refusal: null,
  }
  const body = {
    id: `chatcmpl-${job_id}`,
    object: 'chat.completion',
    created: job.createdAtS,
    model: job.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
  }
  return {
    id,
    custom_id: custom_id ?? null,
    response: { status_code: 200, request_id: job_id, body },
    error: null,
  }
}

export interface OpenAiContext {
  readonly line: number
  readonly model: string
  readonly format: 'text' | 'json'
  readonly createdAtS: number | null
}
