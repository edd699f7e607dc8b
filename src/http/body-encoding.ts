/** Rejects bodies that are compressed or in another character encoding than UTF-8, before they are read. */
import type { FastifyRequest } from 'fastify'
import { type HttpError, notDecoded, notUtf8 } from './errors.ts'

const CHARSET = /;\s*charset\s*=\s*(?:"([^"]*)"|([^;\s]*))/i
const UTF_8 = /^utf-?8$/i

/** Null if the body may be read. A request without a body may declare what it likes. */
export function encodingError({ method, headers }: FastifyRequest): HttpError | null {
  if (method === 'GET' || method === 'HEAD') return null
  const encoding = headers['content-encoding']
  if (encoding !== undefined && !/^\s*identity\s*$/i.test(encoding)) return notDecoded()
  const type = headers['content-type']
  // The usual type has no parameters.
  if (type === undefined || !type.includes(';')) return null
  const [, quoted, plain] = CHARSET.exec(type) ?? []
  const charset = quoted ?? plain
  return charset === undefined || UTF_8.test(charset) ? null : notUtf8()
}
