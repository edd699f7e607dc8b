/** What a request has in addition to what Fastify provides. */
import type { Caller } from './authentication.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the handler of any route that requires a key. */
    caller: Caller
    /** The jobs that the request concerns, for its log line. */
    jobIds: readonly string[] | null
    /** The body as it was received, on routes with `keepBytes`. */
    bodyBytes: Buffer | null
  }
  interface FastifyContextConfig {
    /** Requires no key: health, metrics, documents. */
    public?: boolean
    /** Counts towards the tier's reads per minute. */
    limitReads?: boolean
    /** False where pages of other origins are never allowed, whatever `cors.origins` says. */
    cors?: false
    /** Keeps the bytes of the body, to parse them a second time. */
    keepBytes?: boolean
  }
}
