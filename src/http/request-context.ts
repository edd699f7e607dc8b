/** What a request carries besides what Fastify gives it. */
import type { Caller } from './authentication.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who calls; set before any handler of a route that needs a key. */
    caller: Caller
    /** The jobs that the request was about, for its log line. */
    jobIds: readonly string[] | null
    /** The body as it came, on routes that ask for it by `keepBytes`. */
    bodyBytes: Buffer | null
  }
  interface FastifyContextConfig {
    /** Open to anybody: health, metrics, documents. */
    public?: boolean
    /** Counts against the tier's reads a minute. */
    limitReads?: boolean
    /** False where no other origin's page is let in, whatever `cors.origins` says. */
    cors?: false
    /** Keeps the body's bytes for a second look. */
    keepBytes?: boolean
  }
}
