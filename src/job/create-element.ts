/**
 * The parts of a job creation object that admission needs: its texts, and small facts about them. For large bodies, a thread
 * of the CPU pool extracts them, because sending a parsed conversation between threads is expensive.
 */
import type { IgnoredKeywords } from '../json-schema/answer-schema.ts'
import { tokensAtMost } from './input-size.ts'
import type { Callback, SchemaObject } from './job.ts'
import { acceptedSchema, readSchemaText } from './read-schemas.ts'
import { type BatchElement, type Problem, problemWith, type SingleCreate } from './request.ts'
import { formatParts, TEXT_JSON } from './response-format.ts'

export interface CreateElement {
  readonly model: string
  readonly messagesJson: string
  readonly messages: number
  /** An upper bound of the input's tokens. */
  readonly tokensAtMost: number
  readonly responseFormatJson: string
  /** As the caller wrote them; undefined for the default. */
  readonly cacheTtlS: number | undefined
  readonly timeoutS: number | undefined
  /** Its URL and headers have not been checked yet. */
  readonly callback: Callback | null
  /** The parts of the schema that answers are not checked for; null if everything is checked. */
  readonly ignored: IgnoredKeywords | null
  /** The first rule of SPEC §2.2 to §2.4 that the object violates, among those that need no settings except these limits. */
  readonly problem: Problem | null
}

/** Bytes of the parts of a job creation object. */
export interface PartLimits {
  readonly payloadBytes: number
  readonly schemaBytes: number
}

/** The source text of the parts; null for a part that is absent or whose size cannot matter. */
export interface PartTexts {
  readonly payload: string | null
  readonly schema: string | null
}

export const NO_PARTS: PartTexts = { payload: null, schema: null }

/** @param object of the right shape */
export function createElement(
  object: SingleCreate & BatchElement,
  parts: PartTexts,
  limits: PartLimits,
): CreateElement {
  const { model, messages, response_format, message_cache_ttl, timeout, callback } = object
  const isText = response_format.format === 'text'
  const responseFormatJson = isText ? TEXT_JSON : JSON.stringify(response_format)
  const isWhole = isText && parts === NO_PARTS
  const problem =
    problemWith(object) ?? (isWhole ? null : partProblem(object, responseFormatJson, parts, limits))
  return {
    model,
    messagesJson: JSON.stringify(messages),
    messages: messages.length,
    tokensAtMost: tokensAtMost(messages),
    responseFormatJson,
    cacheTtlS: message_cache_ttl,
    timeoutS: timeout,
    callback: callback === undefined ? null : callbackOf(callback, parts.payload),
    ignored: isText || problem !== null ? null : ignoredIn(responseFormatJson),
    problem,
  }
}

function callbackOf(
  { callback_url, callback_headers = {} }: NonNullable<BatchElement['callback']>,
  payload: string | null,
): Callback {
  return { url: callback_url, headers: callback_headers, payloadJson: payload ?? '{}' }
}

function partProblem(
  { response_format }: SingleCreate,
  responseFormatJson: string,
  parts: PartTexts,
  { payloadBytes, schemaBytes }: PartLimits,
): Problem | null {
  const tooLarge = sizeProblem('response_format.schema', parts.schema, schemaBytes, 'limits.schema_bytes')
  if (tooLarge) return tooLarge
  const format = formatParts(responseFormatJson)
  if (format.kind === 'schema') {
    const read = readSchemaText(format.schemaJson, response_format.schema as SchemaObject)
    if (!read.ok) return { field: `response_format.${read.path}`, rule: read.rule }
  }
  return sizeProblem(
    'callback.callback_payload',
    parts.payload,
    payloadBytes,
    'limits.callback_payload_bytes',
  )
}

function ignoredIn(responseFormatJson: string): IgnoredKeywords | null {
  const format = formatParts(responseFormatJson)
  if (format.kind !== 'schema') return null
  const { ignored } = acceptedSchema(format.schemaJson)
  return ignored.pointers.length > 0 || ignored.more > 0 ? ignored : null
}

function sizeProblem(field: string, text: string | null, limit: number, setting: string): Problem | null {
  const bytes = text === null ? 0 : Buffer.byteLength(text)
  if (bytes <= limit) return null
  return { field, rule: `must be at most ${limit} bytes long (${setting}), but is ${bytes}` }
}
