/**
 * JSON bodies: uncompressed, valid UTF-8, with bounded nesting. The functions return or throw an `HttpError` that explains
 * the problem.
 */
import { isUtf8 } from 'node:buffer'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { type HttpError, notDecoded, notJson, notUtf8 } from './errors.ts'
import { isObject } from './openapi/components.ts'
import './request-context.ts'

const CHARSET = /;\s*charset\s*=\s*(?:"([^"]*)"|([^;\s]*))/i
const UTF_8 = /^utf-?8$/i

/** Called before a body is read; null if it may be read. A request without a body may declare anything. */
export function encodingError({ method, headers }: FastifyRequest): HttpError | null {
  if (method === 'GET' || method === 'HEAD') return null
  const encoding = headers['content-encoding']
  if (encoding !== undefined && !/^\s*identity\s*$/i.test(encoding)) return notDecoded()
  const type = headers['content-type']
  // The most common type has no parameters.
  if (type === undefined || !type.includes(';')) return null
  const [, quoted, plain] = CHARSET.exec(type) ?? []
  const charset = quoted ?? plain
  return charset === undefined || UTF_8.test(charset) ? null : notUtf8()
}

/** The value of a small body. A create request also keeps the text until its elements are built. */
export function parseBody(request: FastifyRequest, bytes: Buffer, maxDepth: number): unknown {
  if (bytes.length === 0) {
    if (needsBody(request)) throw notJson('The body is empty.')
    // Many HTTP libraries send a content type with every request.
    return undefined
  }
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  const text = bytes.toString('utf8')
  if (request.route.config.create !== undefined) request.bodyText = text
  const read = readJson(text, maxDepth)
  if (read.ok) return read.value
  throw notJson(read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error))
}

/** For routes whose body is optional: a missing body is read as an empty object. */
export function fillMissingBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (request.body === undefined) request.body = {}
  done()
}

/** @param schema of a body. A body without required fields may be omitted. */
export function isBodyRequired(schema: object): boolean {
  return !('properties' in schema) || 'required' in schema
}

function needsBody({ route }: FastifyRequest): boolean {
  const body = route.schema?.body
  return route.config.create !== undefined || (isObject(body) && isBodyRequired(body))
}
