/**
 * Cross-origin requests of web pages (Fetch Standard §3.2): which origins may read responses, errors included, and what a
 * preflight answers. The admin API is never open to other origins.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { IGNORED_HEADER } from './ignored-header.ts'

const METHODS = 'GET, POST, DELETE'
/** What a page may send. Some browsers count `user-agent`, which clients set, and tracing libraries add the last two. */
const REQUEST_HEADERS = [
  'content-type',
  'x-api-key',
  'idempotency-key',
  'x-request-id',
  'user-agent',
  'traceparent',
  'tracestate',
].join(', ')
/** What a page may read. */
const EXPOSED_HEADERS = [
  'x-request-id',
  'x-cache',
  IGNORED_HEADER,
  'location',
  'allow',
  'etag',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
].join(', ')
/** How long a browser may reuse the answer of a preflight, in seconds. */
const MAX_AGE_S = '3600'

export class Cors {
  /** Whether pages of any other origin may call. */
  readonly enabled: boolean
  readonly #any: boolean
  readonly #origins: ReadonlySet<string>

  /** @param origins as in `cors.origins`; none of them if pages of other origins may not call */
  constructor(origins: readonly string[]) {
    this.enabled = origins.length > 0
    this.#any = origins.includes('*')
    this.#origins = new Set(origins)
  }

  /** Adds the headers that let the page read the response, whatever its status. Returns whether the page may call. */
  allow({ headers }: FastifyRequest, reply: FastifyReply): boolean {
    if (!this.enabled) return false
    const { origin } = headers
    if (!this.#any) {
      // No cache may give the response for one origin to another.
      reply.header('vary', 'Origin')
      if (origin === undefined || !this.#origins.has(origin)) return false
    }
    reply
      .header('access-control-allow-origin', this.#any ? '*' : origin)
      .header('access-control-expose-headers', EXPOSED_HEADERS)
    return true
  }

  /** Responds to a preflight of an origin that is allowed. */
  answerPreflight(reply: FastifyReply): FastifyReply {
    return reply
      .code(204)
      .header('access-control-allow-methods', METHODS)
      .header('access-control-allow-headers', REQUEST_HEADERS)
      .header('access-control-max-age', MAX_AGE_S)
      .send()
  }
}

/** Whether a browser asks if a page may send a request; any other OPTIONS is a request of its own. */
export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}
