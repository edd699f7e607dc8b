/**
 * Decides which web pages of other origins may use the API (Fetch Standard §3.2), and answers their preflights. They can read
 * errors, too, but can never use the admin API.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { OtherApi } from './envelope.ts'
import { IGNORED_HEADER, SIMULATED_HEADER } from './parley-headers.ts'

const METHODS = 'GET, POST, DELETE'
/** Some browsers ask before they send `user-agent`, which API clients set. Tracing libraries add the last two. */
const REQUEST_HEADERS = [
  'content-type',
  'x-api-key',
  'idempotency-key',
  'x-request-id',
  'user-agent',
  'traceparent',
  'tracestate',
].join(', ')
const EXPOSED_HEADERS = [
  'x-request-id',
  'x-cache',
  SIMULATED_HEADER,
  IGNORED_HEADER,
  'location',
  'allow',
  'etag',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
].join(', ')
/** A browser may cache the response to a preflight for this many seconds. */
const MAX_AGE_S = '3600'

export class Cors {
  readonly enabled: boolean
  readonly #any: boolean
  readonly #origins: ReadonlySet<string>
  readonly #otherApi: OtherApi

  /** @param origins the setting `cors.origins`; empty if no other origin may use the API */
  constructor(origins: readonly string[], otherApi: OtherApi) {
    this.#otherApi = otherApi
    this.enabled = origins.length > 0
    this.#any = origins.includes('*')
    this.#origins = new Set(origins)
  }

  /** Lets the page read the response, whatever its status. Returns false if its origin is not allowed. */
  allow({ headers, url }: FastifyRequest, reply: FastifyReply): boolean {
    if (!this.enabled) return false
    const { origin } = headers
    if (!this.#any) {
      // A cache must not serve the response for one origin to another.
      reply.header('vary', 'Origin')
      if (origin === undefined || !this.#origins.has(origin)) return false
    }
    reply
      .header('access-control-allow-origin', this.#any ? '*' : origin)
      .header('access-control-expose-headers', this.#isOther(url) ? this.#exposedByOther : EXPOSED_HEADERS)
    return true
  }

  answerPreflight(reply: FastifyReply): FastifyReply {
    const { headers, url } = reply.request
    // The headers with which OpenAI's clients describe themselves differ between versions, so any header is allowed.
    const asked = this.#isOther(url) ? headers['access-control-request-headers'] : undefined
    return reply
      .code(204)
      .header('access-control-allow-methods', METHODS)
      .header('access-control-allow-headers', asked ?? REQUEST_HEADERS)
      .header('access-control-max-age', MAX_AGE_S)
      .send()
  }

  #isOther(url: string): boolean {
    return url.startsWith(this.#otherApi.prefix)
  }

  get #exposedByOther(): string {
    return [EXPOSED_HEADERS, ...this.#otherApi.headers].join(', ')
  }
}

export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}
