/**
 * The bodies of create requests. Those that are quick to parse are parsed and validated by the server; others are read by a
 * thread of the CPU pool, which returns texts instead of what it parsed.
 */
import type { FastifyRequest } from 'fastify'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import type { LengthProblem } from '../job/batch-limit.ts'
import type { CreateElement, PartLimits } from '../job/create-body.ts'
import { bodyFingerprint, type CreateBody, createElements } from '../job/create-body.ts'
import type { CreateBodyResult, LargeBody } from '../job/read-create-body.ts'
import type { BatchElement, SingleCreate } from '../job/request.ts'
import { isMostlyStrings } from '../json-text/scan-json.ts'
import { batchTooLong, bodyTakesTooMuchMemory, type HttpError, invalid, notJson } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import './request-context.ts'
import { validationError } from './validation-errors.ts'

/** Parsing a smaller body takes a few milliseconds at most, whatever it contains. */
export const LARGE_BODY_BYTES = 64 * 1024
/** So does parsing a body up to this size if it consists of a few long strings. A thread would take more CPU time for it. */
const LONG_STRINGS_BYTES = 256 * 1024
const LONG_STRINGS_QUOTES = 4096
const LONG_STRINGS_OTHER = 16 * 1024
/** Time limit for reading a large body, including the wait for a thread. */
const READ_TIMEOUT_MS = 30_000

/** The result of reading a body, for both create routes. */
export interface CreateInput {
  readonly elements: readonly CreateElement[]
  /** Identifies the request, for Idempotency-Key. */
  readonly fingerprint: () => string
}

export interface LargeBodyOptions {
  readonly cpu: RequestCpu
  readonly maxDepth: number
  readonly limits: PartLimits
}

/** Whether a thread reads a body of more than LARGE_BODY_BYTES; the event loop parses the others. */
export function isSlowBody(bytes: Buffer): boolean {
  return bytes.length > LONG_STRINGS_BYTES || !isMostlyStrings(bytes, LONG_STRINGS_QUOTES, LONG_STRINGS_OTHER)
}

/**
 * Rejects with the `HttpError` of the first rule that the body violates, and with those of `RequestCpu`.
 * @param bytes moved to the thread: they are empty here afterwards
 */
export async function readLargeBody(
  request: FastifyRequest,
  kind: CreateBody['kind'],
  bytes: Buffer,
  { cpu, maxDepth, limits }: LargeBodyOptions,
): Promise<LargeBody> {
  const { maxBatchJobs } = request.caller.tier
  const fingerprintRoute = request.headers['idempotency-key'] === undefined ? null : routeOf(request)
  // A message transfers all of the memory behind a view, and a body of unknown length has far more behind it.
  const own = bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes)
  const task = { bytes: own, kind, maxDepth, maxJobs: maxBatchJobs, limits, fingerprintRoute }
  try {
    const result = await cpu.use(request, READ_TIMEOUT_MS, (run) => run('read body', task))
    if (result.kind === 'read') return result
    throw bodyError(result, request)
  } catch (error) {
    throw error instanceof TaskFailed && error.outOfMemory ? bodyTakesTooMuchMemory() : error
  }
}

function bodyError(result: Exclude<CreateBodyResult, LargeBody>, request: FastifyRequest): HttpError {
  switch (result.kind) {
    case 'not json':
      return notJson(result.details)
    case 'wrong length':
      return lengthError(result.problem, request)
    case 'wrong shape':
      return invalid(validationError({ ...result.error, schemaPath: '', params: { ...result.error.params } }))
  }
}

export function lengthError(problem: LengthProblem, { caller: { tier } }: FastifyRequest): HttpError {
  switch (problem.kind) {
    case 'not an array':
      return invalid(
        'the body must be an array of job creation objects; to create one job, use POST /api/v1/messages',
      )
    case 'empty':
      return invalid('the body must contain at least one job')
    case 'too long':
      return batchTooLong(tier.name, tier.maxBatchJobs, problem.jobs)
  }
}

/**
 * For routes with `config.create`, after their body has been validated or read by a thread. Throws the error of a small body
 * of the wrong shape; the thread validates large ones.
 */
export function createInput(request: FastifyRequest, limits: PartLimits): CreateInput {
  const { largeBody } = request
  if (largeBody !== null) {
    const { elements, fingerprint } = largeBody
    return { elements, fingerprint: () => fingerprint ?? '' }
  }
  if (request.validationError) throw request.validationError
  const text = request.bodyText ?? ''
  const body: CreateBody =
    request.route.config.create === 'batch'
      ? { kind: 'batch', text, value: request.body as readonly BatchElement[] }
      : { kind: 'single', text, value: request.body as SingleCreate }
  // The text is no longer needed, and would otherwise be kept while the caller waits.
  request.bodyText = null
  const elements = createElements(body, limits)
  return { elements, fingerprint: () => bodyFingerprint(routeOf(request), body, elements) }
}

function routeOf(request: FastifyRequest): string {
  return request.route.url ?? ''
}
