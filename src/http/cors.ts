/**
 * Cross-origin requests from web pages (Fetch Standard §3.2): decides which origins may read responses, including errors, and
 * answers preflights. No other origin can use the admin API.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { OtherApi } from './envelope.ts'
import { IGNORED_HEADER, SIMULATED_HEADER } from './parley-headers.ts'

const METHODS = 'GET, POST, DELETE'
/**
 * The request headers that a page may send. Some browsers require permission for `user-agent`, which Parley's and OpenAI's
 * clients set; tracing libraries add the last two.
 */
const REQUEST_HEADERS = [
  'content-type',
  'x-api-key',
  'idempotency-key',
  'x-request-id',
  'user-agent',
  'traceparent',
  'tracestate',
].join(', ')
/** The response headers that a page may read. */
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
/** How long a browser may cache the response to a preflight, in seconds. */
const MAX_AGE_S = '3600'

export class Cors {
  /** Whether pages of any other origin may call the API. */
  readonly enabled: boolean
  readonly #any: boolean
  readonly #origins: ReadonlySet<string>
  readonly #otherApi: OtherApi

  /** @param origins the setting `cors.origins`; empty if pages of other origins may not call the API */
  constructor(origins: readonly string[], otherApi: OtherApi) {
    this.#otherApi = otherApi
    this.enabled = origins.length > 0
    this.#any = origins.includes('*')
    this.#origins = new Set(origins)
  }

  /**
   * Adds the headers that let the page read the response, regardless of its status. Returns whether the page may call the
   * API.
   */
  allow({ headers, url }: FastifyRequest, reply: FastifyReply): boolean {
    if (!this.enabled) return false
    const { origin } = headers
    if (!this.#any) {
      // Caches must not serve one origin's response to another origin.
      reply.header('vary', 'Origin')
      if (origin === undefined || !this.#origins.has(origin)) return false
    }
    reply
      .header('access-control-allow-origin', this.#any ? '*' : origin)
      .header('access-control-expose-headers', this.#isOther(url) ? this.#exposedByOther : EXPOSED_HEADERS)
    return true
  }

  /** Responds to a preflight of an origin that is allowed. */
  answerPreflight(reply: FastifyReply): FastifyReply {
    const { headers, url } = reply.request
    // OpenAI's clients describe themselves in headers that differ between versions, so any header is allowed there.
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

/** Any OPTIONS request that is not a preflight gets an ordinary response. */
export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}
