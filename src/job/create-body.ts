/**
 * Turns the parsed body of a request to create jobs, and its text, into elements: what admission needs of each job. For large
 * bodies, a thread of the CPU pool does this and returns only the elements, because sending a parsed conversation between
 * threads is expensive.
 */
import { hash } from 'node:crypto'
import type { IgnoredKeywords } from 'parley-json-schema'
import { type CutTexts, cutMembers, cutMembersOfEach, type WantedMembers } from '../json-text/cut-members.ts'
import { mayLoseDigits, parseExactly } from '../json-text/read-json.ts'
import { FINGERPRINT_DIGITS } from './fingerprint.ts'
import type { Callback, Message, SchemaObject } from './job.ts'
import type { JobOptions } from './options.ts'
import type { Priority } from './priority.ts'
import { acceptedSchema, readSchemaText } from './read-schemas.ts'
import type { BatchElement, Metadata, SingleCreate } from './request.ts'
import { formatParts, TEXT_JSON } from './response-format.ts'

/** The route of the request determines the kind, and the kind determines which fields a job may have. */
export type CreateBody =
  | { readonly kind: 'single'; readonly text: string; readonly value: SingleCreate }
  | { readonly kind: 'batch'; readonly text: string; readonly value: readonly BatchElement[] }

export interface CreateElement {
  readonly model: string
  readonly messagesJson: string
  readonly messages: number
  readonly tokensAtMost: number
  readonly responseFormatJson: string
  readonly options: JobOptions | null
  readonly metadata: Metadata | null
  readonly cacheTtlS: number | undefined
  readonly timeoutS: number | undefined
  readonly recordJson?: string
  readonly priority: Priority | undefined
  readonly completeWithinS: number | undefined
  /** The URL and headers are not checked yet. */
  readonly callback: Callback | null
  readonly ignored: IgnoredKeywords | null
  /** The first violated rule of SPEC §2.2 to §2.4. Rules that need other settings than `PartLimits` are checked later. */
  readonly problem: Problem | null
}

export interface PartLimits {
  readonly payloadBytes: number
  readonly schemaBytes: number
}

export interface Problem {
  readonly field: string
  readonly rule: string
}

/** A text is null if its part is absent, or if its exact text does not matter. */
interface PartTexts {
  readonly payload: string | null
  readonly schema: string | null
}

const NO_PARTS: PartTexts = { payload: null, schema: null }

/** `body.value` must be the parsed `body.text`, and must have the right shape. */
export function createElements(body: CreateBody, limits: PartLimits): CreateElement[] {
  const parts = partsOf(body, limits)
  if (body.kind === 'single') return [createElement(body.value, parts?.[0] ?? NO_PARTS, limits)]
  return body.value.map((object, index) => createElement(object, parts?.[index] ?? NO_PARTS, limits))
}

const PAYLOAD = 0
const SCHEMA = 1
const PAYLOAD_MEMBER: WantedMembers = new Map([['callback', new Map([['callback_payload', PAYLOAD]])]])
const SCHEMA_MEMBER: WantedMembers = new Map([['response_format', new Map([['schema', SCHEMA]])]])
const BOTH_MEMBERS: WantedMembers = new Map([...PAYLOAD_MEMBER, ...SCHEMA_MEMBER])

/**
 * The exact text of payloads matters, because they are forwarded as written, and that of schemas with large integers. Returns
 * null if no exact text matters and no part can be too large.
 */
function partsOf(body: CreateBody, limits: PartLimits): readonly PartTexts[] | null {
  const hasPayload =
    body.kind === 'batch' && body.value.some(({ callback }) => callback?.callback_payload !== undefined)
  // Counting UTF-16 units is faster than counting bytes. A unit takes at most three bytes.
  const mayExceed = body.text.length * 3 > limits.schemaBytes
  const needsSchema = mayExceed || (hasSchema(body) && mayLoseDigits(body.text))
  if (!hasPayload && !needsSchema) return null
  const wanted = hasPayload ? (needsSchema ? BOTH_MEMBERS : PAYLOAD_MEMBER) : SCHEMA_MEMBER
  const cut = body.kind === 'batch' ? cutMembersOfEach(body.text, wanted) : [cutMembers(body.text, wanted)]
  return cut.map(partTexts)
}

function hasSchema({ kind, value }: CreateBody): boolean {
  const objects = kind === 'batch' ? value : [value]
  return objects.some(({ response_format }) => response_format.schema !== undefined)
}

function partTexts(cut: CutTexts): PartTexts {
  return { payload: cut[PAYLOAD] ?? null, schema: cut[SCHEMA] ?? null }
}

function createElement(
  object: SingleCreate & BatchElement,
  parts: PartTexts,
  limits: PartLimits,
): CreateElement {
  const { model, messages, response_format, options, metadata, message_cache_ttl, callback } = object
  const isText = response_format.format === 'text'
  const responseFormatJson = isText ? TEXT_JSON : formatJson(response_format, parts.schema, limits)
  const isWhole = isText && parts === NO_PARTS
  const problem =
    problemWith(object) ?? (isWhole ? null : partProblem(object, responseFormatJson, parts, limits))
  return {
    model,
    messagesJson: JSON.stringify(messages),
    messages: messages.length,
    tokensAtMost: tokensAtMost(messages),
    responseFormatJson,
    options: options ?? null,
    metadata: metadata === undefined || Object.keys(metadata).length === 0 ? null : metadata,
    cacheTtlS: message_cache_ttl,
    timeoutS: object.timeout,
    priority: object.priority,
    completeWithinS: object.complete_within,
    callback: callback === undefined ? null : callbackOf(callback, parts.payload),
    ignored: isText || problem !== null ? null : ignoredIn(responseFormatJson),
    problem,
  }
}

function formatJson(
  format: SingleCreate['response_format'],
  schema: string | null,
  { schemaBytes }: PartLimits,
): string {
  if (schema === null || schema.length > schemaBytes || !mayLoseDigits(schema)) return JSON.stringify(format)
  return JSON.stringify({ ...format, schema: parseExactly(schema) })
}

function callbackOf(
  { callback_url, callback_headers = {}, include = [] }: NonNullable<BatchElement['callback']>,
  payload: string | null,
): Callback {
  const callback = { url: callback_url, headers: callback_headers, payloadJson: payload ?? '{}' }
  return include.length === 0 ? callback : { ...callback, include: [...new Set(include)] }
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

/** Checks rules of SPEC §2.2 and §2.3 that the schema of the body cannot express. */
export function problemWith({ response_format, messages }: SingleCreate | BatchElement): Problem | null {
  let hasUser = false
  for (const { role } of messages) hasUser ||= role === 'user'
  if (!hasUser) return { field: 'messages', rule: 'must contain at least one message whose role is user' }
  if (response_format.format === 'text' && response_format.schema !== undefined) {
    return { field: 'response_format.schema', rule: 'is only for format json; omit it with format text' }
  }
  return null
}

const TOKENS_PER_MESSAGE = 3
const TOKENS_FOR_ANSWER = 3

/** The chat format adds a few tokens for each message, and a few for the beginning of the answer. */
export function framingTokens(messages: number): number {
  return messages * TOKENS_PER_MESSAGE + TOKENS_FOR_ANSWER
}

/** Returns an upper bound: a token has at least one byte. Because of it, most jobs need no tokenizer. */
export function tokensAtMost(messages: readonly Message[]): number {
  let tokens = TOKENS_FOR_ANSWER
  for (const { content } of messages) tokens += TOKENS_PER_MESSAGE + Buffer.byteLength(content)
  return tokens
}

/**
 * White space and escapes do not change the fingerprint of a request, but every digit of a large integer in a payload or schema
 * does.
 */
export function bodyFingerprint(
  route: string,
  body: CreateBody['value'],
  elements: readonly CreateElement[],
): string {
  const compared: { object: SingleCreate | BatchElement; payloadJson: string | null }[] = []
  for (const object of Array.isArray(body) ? body : [body]) {
    const payloadJson = 'callback' in object ? exactPayload(object, elements[compared.length]) : null
    compared.push({ object, payloadJson })
  }
  let json = JSON.stringify(compared)
  if (json.includes('"schema":')) json += exactFormats(elements)
  return hash('sha256', `${route.length}:${route}${json.length}:${json}`, 'base64url').slice(
    0,
    FINGERPRINT_DIGITS,
  )
}

/** Returns the texts of formats with integers beyond 2^53, because different integers may parse to equal values. */
export function exactFormats(elements: readonly CreateElement[]): string {
  const formats = elements.map(({ responseFormatJson }) => responseFormatJson)
  return formats.filter(mayLoseDigits).join('')
}

function exactPayload({ callback }: BatchElement, element: CreateElement | undefined): string | null {
  if (callback?.callback_payload === undefined) return null
  return JSON.stringify(parseExactly(element?.callback?.payloadJson ?? '{}'))
}

export type LengthProblem =
  | { readonly kind: 'not an array' | 'empty' }
  | { readonly kind: 'too long'; readonly jobs: number }

/**
 * Returns null if the body is a batch of a permitted length. The fields are checked afterwards, so that a batch over the limit
 * costs no more than parsing.
 */
export function batchLengthProblem(body: unknown, maxJobs: number): LengthProblem | null {
  if (!Array.isArray(body)) return { kind: 'not an array' }
  if (body.length === 0) return { kind: 'empty' }
  return body.length > maxJobs ? { kind: 'too long', jobs: body.length } : null
}
