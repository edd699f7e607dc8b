/**
 * Reads a large body below `/v1`, as a task of the CPU pool: from its bytes to the job that it asks for, or to the first error. Small
 * bodies are read on the event loop, by the same functions.
 */
import { isUtf8 } from 'node:buffer'
import { bodyFingerprint, type CreateElement, createElements, type PartLimits } from '../job/create-body.ts'
import { FieldProblem } from '../job/field-problem.ts'
import type { CreateBodyResult } from '../job/read-create-body.ts'
import type { SingleCreate } from '../job/request.ts'
import { hashOfRequest } from '../job/request-hash.ts'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { chatJob } from './chat-fields.ts'
import { responseOf } from './response-fields.ts'

/** By the name in `config.translation` of a route. */
const TRANSLATIONS: Readonly<Record<string, (body: unknown) => TranslatedBody>> = {
  chat: chatJob,
  response: responseOf,
}

export interface TranslatedBody {
  readonly value: SingleCreate
  /** What must be remembered of the request. */
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

/** The job of a request, with what admission needs of it. */
export function elementsOfBody(translation: string, body: unknown, limits: PartLimits): CreateElement[] {
  const translate = TRANSLATIONS[translation]
  if (translate === undefined) throw new Error(`no translation ${translation}`)
  const { value, record } = translate(body)
  // Only the text of the format matters, because nothing else has a limit of its own.
  const text = JSON.stringify({ response_format: value.response_format })
  const elements = createElements({ kind: 'single', text, value }, limits)
  return record ? elements.map((element) => ({ ...element, recordJson: JSON.stringify(record) })) : elements
}
