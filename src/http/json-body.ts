/**
 * Reads JSON bodies in UTF-8 with limited nesting. The event loop parses bodies that take little time. A large body of a create
 * request is read on a thread, which returns JSON texts instead of values.
 */
import './request-context.ts'
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import type { LengthProblem, PartLimits } from '../job/create-body.ts'
import type { CreateBodyResult, LargeBody } from '../job/read-create-body.ts'
import { isObject } from '../json-object.ts'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { isMostlyStrings } from '../json-text/scan-json.ts'
import {
  batchTooLong,
  bodyTakesTooMuchMemory,
  type HttpError,
  invalid,
  notDecoded,
  notJson,
  notUtf8,
} from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import type { RequestBodies } from './request-bodies.ts'
import { validationError } from './validation-errors.ts'

const CHARSET = /;\s*charset\s*=\s*(?:"([^"]*)"|([^;\s]*))/i
const UTF_8 = /^utf-?8$/i
/** The event loop parses bodies up to this size, which takes a few milliseconds at most. */
const LARGE_BODY_BYTES = 64 * 1024
/** Up to this size, parsing a body of a few long strings takes less CPU time than its transfer to a thread. */
const LONG_STRINGS_BYTES = 256 * 1024
const LONG_STRINGS_QUOTES = 4096
const LONG_STRINGS_OTHER = 16 * 1024
/** Reading a large body may take this long, including the wait for a thread. */
const READ_TIMEOUT_MS = 30_000

export interface LargeBodyOptions {
  readonly cpu: RequestCpu
  readonly maxDepth: number
  readonly limits: PartLimits
}

/** Reads bodies after authentication and within the byte budget. */
export function readJsonBodies(app: FastifyInstance, bodies: RequestBodies, options: LargeBodyOptions): void {
  // This hook runs before the body is read, so a rejected body is never in memory.
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    const error = encodingError(request) ?? bodies.admit(request)
    if (error instanceof Promise) void error.then((late) => done(late))
    else done(error)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', (request, _payload, done) => {
    const { create, translation } = request.route.config
    const kind = create ?? translation
    bodies.read(request, (error, received) => {
      if (error || !received) return done(error)
      const bytes = received[0] === BYTE_ORDER_MARK[0] ? withoutMark(received) : received
      if (kind !== undefined && bytes.length > LARGE_BODY_BYTES && isSlowBody(bytes)) {
        readLargeBody(request, bytes, options).then((read) => {
          request.largeBody = read
          done(null, {})
        }, done)
        return
      }
      try {
        done(null, parseBody(request, bytes, options.maxDepth))
      } catch (notValid) {
        done(notValid as Error)
      }
    })
  })
}

/** Many Windows programs write a byte order mark at the beginning of a file. */
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

function withoutMark(bytes: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK
  return bytes.subarray(0, length).equals(BYTE_ORDER_MARK) ? bytes.subarray(length) : bytes
}

/** Returns null if Parley supports the headers of the body. GET and HEAD requests have no body. */
function encodingError({ method, headers }: FastifyRequest): HttpError | null {
  if (method === 'GET' || method === 'HEAD') return null
  const encoding = headers['content-encoding']
  if (encoding !== undefined && !/^\s*identity\s*$/i.test(encoding)) return notDecoded()
  const type = headers['content-type']
  // The most common type has no parameters, so the regular expression is not needed for it.
  if (type === undefined || !type.includes(';')) return null
  const [, quoted, plain] = CHARSET.exec(type) ?? []
  const charset = quoted ?? plain
  return charset === undefined || UTF_8.test(charset) ? null : notUtf8()
}

/** On create routes, also keeps the text, until `elementsOf` has used it. */
function parseBody(request: FastifyRequest, bytes: Buffer, maxDepth: number): unknown {
  if (bytes.length === 0) {
    if (needsBody(request)) throw notJson('The body is empty.')
    // Many HTTP libraries send a content type even without a body.
    return undefined
  }
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  const text = bytes.toString('utf8')
  const { create, translation } = request.route.config
  if ((create ?? translation) !== undefined) request.bodyText = text
  const read = readJson(text, maxDepth)
  if (read.ok) return read.value
  throw notJson(read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error))
}

function isSlowBody(bytes: Buffer): boolean {
  return bytes.length > LONG_STRINGS_BYTES || !isMostlyStrings(bytes, LONG_STRINGS_QUOTES, LONG_STRINGS_OTHER)
}

/** Rejects with the error of the first violated rule, or of `RequestCpu`. The transferred buffer is empty afterwards. */
async function readLargeBody(
  request: FastifyRequest,
  bytes: Buffer,
  { cpu, maxDepth, limits }: LargeBodyOptions,
): Promise<LargeBody> {
  const { create: kind = 'single', translation } = request.route.config
  const { maxBatchJobs } = request.caller.tier
  const fingerprintRoute = request.headers['idempotency-key'] === undefined ? null : (request.route.url ?? '')
  // A transfer takes the whole buffer. If the body is only a part of its buffer, it is copied.
  const own = bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes)
  const task = { bytes: own, kind, maxDepth, maxJobs: maxBatchJobs, limits, fingerprintRoute }
  try {
    const result = await cpu.use(request, READ_TIMEOUT_MS, (run) => {
      if (translation === undefined) return run('read body', task)
      return run('read v1 body', {
        bytes: own,
        translation,
        route: request.route.url ?? '',
        maxDepth,
        limits,
      })
    })
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
    case 'wrong field':
      return invalid(result.problem)
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

/** Routes whose body is optional use this hook. */
export function fillMissingBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (request.body === undefined) request.body = {}
  done()
}

/** A body is optional if an empty object satisfies the schema. */
export function isBodyRequired(schema: object): boolean {
  return !('properties' in schema) || 'required' in schema || 'minProperties' in schema
}

function needsBody({ route }: FastifyRequest): boolean {
  const body = route.schema?.body
  return route.config.create !== undefined || (isObject(body) && isBodyRequired(body))
}
