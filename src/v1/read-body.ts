/**
 * Translates a large body below `/v1` to a job, or to the first error, as a task of the CPU pool. The event loop reads small
 * bodies with the same functions. Contains the translation of chat completions.
 */
import { isUtf8 } from 'node:buffer'
import { bodyFingerprint, type CreateElement, createElements, type PartLimits } from '../job/create-body.ts'
import { FieldProblem } from '../job/field-rules.ts'
import { hashOfRequest } from '../job/fingerprint.ts'
import type { CreateBodyResult } from '../job/read-create-body.ts'
import type { SingleCreate } from '../job/request.ts'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
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

/** Translations by their name in a route's `config.translation`. */
const TRANSLATIONS: Readonly<Record<string, (body: unknown) => TranslatedBody>> = {
  chat: chatJob,
  response: responseOf,
}

export interface TranslatedBody {
  readonly value: SingleCreate
  /** The parts of the request that its job stores in addition. */
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
  const read = readJson(buffer.toString('utf8'), maxDepth)
  if (!read.ok) {
    return {
      kind: 'not json',
      details: read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error),
    }
  }
  try {
    const elements = elementsOfBody(translation, read.value, limits)
    const hash = hashOfRequest(route, JSON.stringify(read.value))
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

/** Returns the job of a request, with what admission needs of it. */
export function elementsOfBody(translation: string, body: unknown, limits: PartLimits): CreateElement[] {
  const translate = TRANSLATIONS[translation]
  if (translate === undefined) throw new Error(`no translation ${translation}`)
  const { value, record } = translate(body)
  // Only the format is measured, because nothing else has a limit of its own.
  const text = JSON.stringify({ response_format: value.response_format })
  const elements = createElements({ kind: 'single', text, value }, limits)
  return record ? elements.map((element) => ({ ...element, recordJson: JSON.stringify(record) })) : elements
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

/** Returns the job that the body requests. */
function chatJob(body: unknown): { readonly value: SingleCreate } {
  const fields = supportedFields(body, FIELDS)
  const { model, messages, response_format, max_completion_tokens } = fields
  if (typeof model !== 'string') throw new FieldProblem('model', 'must be a string')
  const lengthField = max_completion_tokens === undefined ? 'max_tokens' : 'max_completion_tokens'
  return {
    value: {
      model,
      messages: messagesOf(messages, 'messages'),
      response_format: formatOf(response_format, 'response_format'),
      options: optionsOf(fields, lengthField),
    },
  }
}
