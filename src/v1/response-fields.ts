/** Translates the body of POST /v1/responses to a job, and to a record that is stored with the job. */
import { FieldProblem } from '../job/field-rules.ts'
import type { Message, Role } from '../job/job.ts'
import { ROLES } from '../job/job.ts'
import type { SingleCreate } from '../job/request.ts'
import { isObject } from '../json-object.ts'
import {
  type FieldPolicy,
  type Fields,
  formatOf,
  IGNORED,
  is,
  isAnything,
  isEmpty,
  optionsOf,
  supportedFields,
  textOf,
} from './fields.ts'

/** A response repeats these fields of its request. */
export interface ResponseRecord {
  readonly route: 'responses'
  readonly background: boolean
  /** Counts the characters of the instructions as JSON text. The instructions are the first message of the job. */
  readonly instructions: number
  readonly metadata: Readonly<Record<string, string>>
  readonly format?: { readonly name: string; readonly description?: string; readonly strict?: boolean }
}

export interface WantedResponse {
  readonly value: SingleCreate
  readonly record: ResponseRecord
}

const BODY: FieldPolicy = {
  supported: [
    'model',
    'input',
    'instructions',
    'background',
    'text',
    'reasoning',
    'max_output_tokens',
    'temperature',
    'top_p',
    'metadata',
  ],
  ignored: IGNORED,
  neutral: {
    stream: is(false),
    tools: isEmpty,
    tool_choice: is('none', 'auto'),
    parallel_tool_calls: isAnything,
    max_tool_calls: isAnything,
    // Frameworks send this value for reasoning models. It has no effect, because Parley's responses contain no reasoning items.
    include: (value) => Array.isArray(value) && value.every(is('reasoning.encrypted_content')),
    truncation: is('disabled'),
    top_logprobs: is(0),
    context_management: isEmpty,
  },
}
const TEXT: FieldPolicy = {
  supported: ['format', 'verbosity'],
  ignored: [],
  neutral: { verbosity: is('medium') },
}
/** Summaries are ignored, because Parley's responses contain no reasoning items. */
const REASONING: FieldPolicy = {
  supported: ['effort'],
  ignored: ['summary', 'generate_summary'],
  neutral: {},
}
const OPTIONS = {
  max_tokens: 'max_output_tokens',
  reasoning_effort: 'reasoning.effort',
  verbosity: 'text.verbosity',
} as const
/** Clients send back items of earlier responses. Their additional fields do not change the answer. */
const ITEM: FieldPolicy = {
  supported: ['type', 'role', 'content'],
  ignored: ['id', 'status', 'phase', 'parsed'],
  neutral: {},
}
const PARTS = ['input_text', 'output_text']

export function responseOf(body: unknown): WantedResponse {
  const fields = supportedFields(body, BODY)
  const { model, input, background, reasoning = {}, text = {} } = fields
  if (typeof model !== 'string') throw new FieldProblem('model', 'must be a string')
  if (background !== undefined && typeof background !== 'boolean') {
    throw new FieldProblem('background', 'must be true or false')
  }
  const instructions = instructionsOf(fields.instructions)
  const { effort } = supportedFields(reasoning, REASONING, 'reasoning')
  const { format, verbosity } = supportedFields(text, TEXT, 'text')
  const messages = messagesOf(input)
  return {
    value: {
      model,
      messages: instructions === null ? messages : [{ role: 'system', content: instructions }, ...messages],
      response_format: formatOf(format, 'text.format'),
      options: optionsOf({ ...fields, 'reasoning.effort': effort, 'text.verbosity': verbosity }, OPTIONS),
    },
    record: {
      route: 'responses',
      background: background === true,
      instructions: instructions === null ? 0 : Array.from(JSON.stringify(instructions)).length,
      metadata: metadataOf(fields.metadata),
      ...namedFormat(format),
    },
  }
}

function instructionsOf(given: unknown): string | null {
  if (given === undefined || given === '') return null
  if (typeof given !== 'string') throw new FieldProblem('instructions', 'must be a string')
  return given
}

function messagesOf(input: unknown): Message[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }]
  if (!Array.isArray(input)) throw new FieldProblem('input', 'must be a string or an array of items')
  return input.map((item: unknown, at) => messageOf(item, `input[${at}]`))
}

function messageOf(item: unknown, field: string): Message {
  if (isObject(item) && item.type !== undefined && item.type !== 'message') {
    throw new FieldProblem(`${field}.type`, 'must be message')
  }
  const { role, content } = supportedFields(item, ITEM, field)
  if (!ROLES.includes(role as Role))
    throw new FieldProblem(`${field}.role`, `must be one of ${ROLES.join(', ')}`)
  return { role: role as Role, content: textOf(content, `${field}.content`, PARTS) }
}

/** OpenAI's API has the same limits. */
export const METADATA = { pairs: 16, keyLength: 64, valueLength: 512 } as const

export function metadataOf(given: unknown): Readonly<Record<string, string>> {
  if (given === undefined) return {}
  if (!isObject(given)) throw new FieldProblem('metadata', 'must be an object')
  const pairs = Object.entries(given)
  const { pairs: most, keyLength, valueLength } = METADATA
  if (pairs.length > most) throw new FieldProblem('metadata', `must have at most ${most} pairs`)
  for (const [key, value] of pairs) {
    if (key.length > keyLength)
      throw new FieldProblem('metadata', `keys must have at most ${keyLength} characters`)
    if (typeof value !== 'string' || value.length > valueLength) {
      throw new FieldProblem(`metadata.${key}`, `must be a string of at most ${valueLength} characters`)
    }
  }
  return given as Readonly<Record<string, string>>
}

function namedFormat(format: unknown): Pick<ResponseRecord, 'format'> {
  if (!isObject(format) || format.type !== 'json_schema') return {}
  const { name, description, strict } = format as Fields
  if (typeof name !== 'string') throw new FieldProblem('text.format.name', 'must be a string')
  return {
    format: {
      name,
      ...(typeof description === 'string' && { description }),
      ...(typeof strict === 'boolean' && { strict }),
    },
  }
}
