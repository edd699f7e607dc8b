/**
 * Reads a large body of a request to create jobs, as a task of the CPU pool. The HTTP server reads small bodies itself, with
 * the same checks, order and errors.
 */
import { isUtf8 } from 'node:buffer'
import { Ajv, type ValidateFunction } from 'ajv'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { Type } from '../typed-schema.ts'
import {
  batchLengthProblem,
  bodyFingerprint,
  type CreateBody,
  type CreateElement,
  createElements,
  type LengthProblem,
  type PartLimits,
} from './create-body.ts'
import { type BatchElement, batchElement, type SingleCreate, singleCreate } from './request.ts'

export interface ReadCreateBody {
  readonly bytes: Uint8Array
  readonly kind: CreateBody['kind']
  readonly maxDepth: number
  readonly maxJobs: number
  readonly limits: PartLimits
  /** No fingerprint is computed if the route is null. */
  readonly fingerprintRoute: string | null
}

export interface ShapeError {
  readonly keyword: string
  readonly instancePath: string
  readonly params: Readonly<Record<string, unknown>>
  readonly message: string
}

export interface LargeBody {
  readonly kind: 'read'
  readonly elements: readonly CreateElement[]
  readonly fingerprint: string | null
  /** A body below `/v1` has this hash, which identifies the request among those of its account. */
  readonly hash?: string
}

export type CreateBodyResult =
  | LargeBody
  | { readonly kind: 'not json'; readonly details: string }
  | { readonly kind: 'wrong length'; readonly problem: LengthProblem }
  | { readonly kind: 'wrong shape'; readonly error: ShapeError }
  | { readonly kind: 'wrong field'; readonly problem: string }

/** The HTTP server uses the same options, so that small and large bodies get the same errors. */
const ajv = new Ajv({ coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false })
const validators = new Map<CreateBody['kind'], ValidateFunction>()

function validatorOf(kind: CreateBody['kind']): ValidateFunction {
  const validate =
    validators.get(kind) ?? ajv.compile(kind === 'batch' ? Type.Array(batchElement) : singleCreate)
  validators.set(kind, validate)
  return validate
}

export function readCreateBody(task: ReadCreateBody): CreateBodyResult {
  const { kind, maxDepth, maxJobs, limits, fingerprintRoute } = task
  const bytes = Buffer.from(task.bytes.buffer, task.bytes.byteOffset, task.bytes.byteLength)
  if (!isUtf8(bytes)) return { kind: 'not json', details: 'The body is not valid UTF-8.' }
  const text = bytes.toString('utf8')
  const read = readJson(text, maxDepth)
  if (!read.ok) {
    const details = read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error)
    return { kind: 'not json', details }
  }
  const problem = kind === 'batch' ? batchLengthProblem(read.value, maxJobs) : null
  if (problem) return { kind: 'wrong length', problem }
  const validate = validatorOf(kind)
  if (!validate(read.value)) return { kind: 'wrong shape', error: shapeError(validate) }
  const body: CreateBody =
    kind === 'batch'
      ? { kind, text, value: read.value as readonly BatchElement[] }
      : { kind, text, value: read.value as SingleCreate }
  const elements = createElements(body, limits)
  // A body with a problem is rejected, so it needs no fingerprint, and a payload over its limit must not be hashed.
  const isValid = elements.every(({ problem }) => problem === null)
  const fingerprint =
    fingerprintRoute !== null && isValid ? bodyFingerprint(fingerprintRoute, body.value, elements) : null
  return { kind: 'read', elements: elements.map(withFewHeaders), fingerprint }
}

function shapeError({ errors }: ValidateFunction): ShapeError {
  const [first] = errors ?? []
  if (first === undefined) throw new Error('an invalid body has no error')
  const { keyword, instancePath, params, message = '' } = first
  return { keyword, instancePath, params, message }
}

/** Only this many headers of a callback are kept. The limit for callers is lower, so the check of their number still fails. */
const HEADERS = 100

/**
 * Sending hundreds of thousands of headers from a thread to the event loop would take as long as parsing them. The first ones
 * are enough to reject a callback that has too many.
 */
function withFewHeaders(element: CreateElement): CreateElement {
  const { callback } = element
  if (callback === null) return element
  const headers = Object.fromEntries(Object.entries(callback.headers).slice(0, HEADERS))
  return { ...element, callback: { ...callback, headers } }
}
