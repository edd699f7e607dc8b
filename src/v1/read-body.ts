/**
 * Translates a large body below `/v1` to a job, or to the first error, as a task of the CPU pool. The event loop reads small
 * bodies with the same functions.
 */
import { isUtf8 } from 'node:buffer'
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
import { cutMembers, type WantedMembers } from '../json-text/cut-members.ts'
import { mayLoseDigits, readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { chatOf } from './chat-fields.ts'
import { responseOf } from './response-fields.ts'

/** Translations by their name in a route's `config.translation`. */
const TRANSLATIONS: Readonly<Record<string, (body: unknown) => TranslatedBody>> = {
  chat: chatOf,
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

export interface V1Body {
  readonly text: string
  readonly value: unknown
}

/** Returns the job of a request, with what admission needs of it. */
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
/** Where the schema is, in either route. A body has only one of them. */
const SCHEMA: WantedMembers = new Map([
  ['response_format', FORMAT],
  ['text', new Map([['format', FORMAT]])],
])

/** Returns the part of the job's text that is measured or kept as written. Only the format has a limit of its own. */
function formatText({ response_format }: SingleCreate, text: string): string {
  if (response_format.schema !== undefined && mayLoseDigits(text)) {
    const cut = cutMembers(text, SCHEMA)
    const schema = cut[IN_JSON_SCHEMA] ?? cut[IN_FORMAT]
    if (schema) return `{"response_format":{"format":"json","schema":${schema}}}`
  }
  return JSON.stringify({ response_format })
}
