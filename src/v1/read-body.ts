/**
 * Translates a body below `/v1` or a line of a batch to a job, or to its first error. Large texts are translated on the threads
 * of the CPU pool, small ones on the event loop.
 */

import { isUtf8 } from 'node:buffer'
import type { WrongLine } from '../batches/progress.ts'
import type { WantedLine } from '../batches/wanted-line.ts'
import {
  bodyFingerprint,
  type CreateElement,
  createElements,
  exactFormats,
  type PartLimits,
} from '../job/create-body.ts'
import { FieldProblem } from '../job/field-rules.ts'
import { hashOfRequest } from '../job/fingerprint.ts'
import type { CreateBodyResult } from '../job/read-create-body.ts'
import type { SingleCreate } from '../job/request.ts'
import { isObject } from '../json-object.ts'
import { cutMembers, type WantedMembers } from '../json-text/cut-members.ts'
import { mayLoseDigits, readJson, withoutExcerpt } from '../json-text/read-json.ts'
import {
  type FieldPolicy,
  formatOf,
  IGNORED,
  is,
  isAnything,
  isEmpty,
  messagesOf,
  optionsOf,
  supportedFields,
} from './fields.ts'
import { responseOf } from './response-fields.ts'

/** Routes name their translation in `config.translation`. */
const TRANSLATIONS: Readonly<Record<string, (body: unknown) => TranslatedBody>> = {
  chat: chatOf,
  response: responseOf,
}

export interface TranslatedBody {
  readonly value: SingleCreate
  /** The job stores these fields of the request, because the response repeats them. */
  readonly record?: object
}

export interface ReadV1Body {
  readonly bytes: Uint8Array
  readonly translation: string
  readonly route: string
  readonly maxDepth: number
  readonly limits: PartLimits
}

export function readV1Body({ bytes, translation, route, maxDepth, limits }: ReadV1Body): CreateBodyResult {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!isUtf8(buffer)) return { kind: 'not json', details: 'The body is not valid UTF-8.' }
  const text = buffer.toString('utf8')
  const read = readJson(text, maxDepth)
  if (!read.ok) {
    return {
      kind: 'not json',
      details: read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error),
    }
  }
  try {
    const elements = elementsOfBody(translation, { text, value: read.value }, limits)
    const hash = hashOfRequest(route, JSON.stringify(read.value) + exactFormats(elements))
    return {
      kind: 'read',
      elements,
      fingerprint: bodyFingerprint(route, read.value as SingleCreate, elements),
      hash,
    }
  } catch (error) {
    if (error instanceof FieldProblem) return { kind: 'wrong field', problem: error.message }
    throw error
  }
}

export interface BatchLineText {
  readonly bytes: Uint8Array
  readonly endpoint: string
  readonly maxDepth: number
  readonly limits: PartLimits
}

/** Maps the endpoints that a batch may use to the translation of their bodies. */
export const ENDPOINTS: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'response',
}
const MAX_ID = 512
const BODY = new Map([['body', 0]])

export function readBatchLine({ bytes, endpoint, maxDepth, limits }: BatchLineText): WantedLine | WrongLine {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!isUtf8(buffer)) return wrong('invalid_json_line', 'The line is not valid UTF-8.')
  const line = buffer.toString('utf8')
  const read = readJson(line, maxDepth)
  if (!read.ok) {
    const why = read.tooDeep ? `The line is ${read.error}.` : withoutExcerpt(read.error)
    return wrong('invalid_json_line', why)
  }
  if (!isObject(read.value)) return wrong('invalid_json_line', 'The line must be a JSON object.')
  const { custom_id: customId, method, url, body } = read.value
  if (!isCustomId(customId)) {
    const rule = `custom_id: must be a string of 1 to ${MAX_ID} characters, none of which is NUL.`
    return wrong('invalid_custom_id', rule, 'custom_id')
  }
  if (method !== 'POST') return wrong('invalid_method', 'method: must be POST.', 'method')
  if (url !== endpoint) {
    return wrong('mismatched_url', `url: must be ${endpoint}, the endpoint of the batch.`, 'url')
  }
  try {
    const text = mayLoseDigits(line) ? (cutMembers(line, BODY)[0] ?? '') : ''
    const [element] = elementsOfBody(ENDPOINTS[endpoint] ?? '', { text, value: body }, limits)
    if (element === undefined) throw new Error('a body without a job')
    return { customId, element }
  } catch (error) {
    if (!(error instanceof FieldProblem)) throw error
    const [, field] = /^([\w.[\]]+): /.exec(error.message) ?? []
    return wrong('invalid_request', error.message, field === undefined ? 'body' : `body.${field}`)
  }
}

function wrong(code: string, message: string, param: string | null = null): WrongLine {
  return { code, message, param }
}

/** The database would change NUL, and the result file would change unpaired surrogates. */
function isCustomId(text: unknown): text is string {
  if (typeof text !== 'string' || text.length === 0 || text.length > MAX_ID) return false
  return text.isWellFormed() && !text.includes('\0')
}

export interface V1Body {
  readonly text: string
  readonly value: unknown
}

/** Throws a `FieldProblem` for the first wrong field. */
export function elementsOfBody(
  translation: string,
  { text, value: body }: V1Body,
  limits: PartLimits,
): CreateElement[] {
  const translate = TRANSLATIONS[translation]
  if (translate === undefined) throw new Error(`no translation ${translation}`)
  const { value, record } = translate(body)
  const elements = createElements({ kind: 'single', text: formatText(value, text), value }, limits)
  return record ? elements.map((element) => ({ ...element, recordJson: JSON.stringify(record) })) : elements
}

const IN_JSON_SCHEMA = 0
const IN_FORMAT = 1
const FORMAT: WantedMembers = new Map<string, number | WantedMembers>([
  ['json_schema', new Map([['schema', IN_JSON_SCHEMA]])],
  ['schema', IN_FORMAT],
])
/** The bodies of the two routes contain at most one schema, at one of these places. */
const SCHEMA: WantedMembers = new Map([
  ['response_format', FORMAT],
  ['text', new Map([['format', FORMAT]])],
])

/** Returns JSON text of the response format, in which large numbers of the schema keep all digits. */
function formatText({ response_format }: SingleCreate, text: string): string {
  if (response_format.schema !== undefined && mayLoseDigits(text)) {
    const cut = cutMembers(text, SCHEMA)
    const schema = cut[IN_JSON_SCHEMA] ?? cut[IN_FORMAT]
    if (schema) return `{"response_format":{"format":"json","schema":${schema}}}`
  }
  return JSON.stringify({ response_format })
}

const FIELDS: FieldPolicy = {
  supported: [
    'model',
    'messages',
    'response_format',
    'temperature',
    'top_p',
    'max_tokens',
    'max_completion_tokens',
    'stop',
    'seed',
    'presence_penalty',
    'frequency_penalty',
    'reasoning_effort',
    'verbosity',
  ],
  ignored: ['metadata', ...IGNORED],
  neutral: {
    stream: is(false),
    n: is(1),
    tools: isEmpty,
    tool_choice: is('none', 'auto'),
    functions: isEmpty,
    function_call: is('none', 'auto'),
    parallel_tool_calls: isAnything,
    logprobs: is(false),
    top_logprobs: is(0),
    logit_bias: isEmpty,
    modalities: (value) => Array.isArray(value) && value.every(is('text')),
    verbosity: is('medium'),
  },
}

export function chatOf(body: unknown): { readonly value: SingleCreate } {
  const fields = supportedFields(body, FIELDS)
  const { model, messages, response_format, max_completion_tokens } = fields
  if (typeof model !== 'string') throw new FieldProblem('model', 'must be a string')
  const names = max_completion_tokens === undefined ? {} : { max_tokens: 'max_completion_tokens' }
  return {
    value: {
      model,
      messages: messagesOf(messages, 'messages'),
      response_format: formatOf(response_format, 'response_format'),
      options: optionsOf(fields, names),
    },
  }
}
