/** What a request has in addition to what Fastify provides. */
import type { Caller } from './authentication.ts'

/** What the body of a request takes of the budget. */
export interface BodyMemory {
  /** 0 once it is received. */
  uploadBytes: number
  requestBytes: number
  bodyLength: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the handler of any route that requires a key. */
    caller: Caller
    /** The jobs that the request concerns, for its log line. */
    jobIds: readonly string[] | null
    /** The body as it was received, on routes with `keepBytes`. */
    bodyBytes: Buffer | null
    /** What the body takes of the byte budget; null without a body, and once the response is sent. */
    bodyMemory: BodyMemory | null
    /** What is counted of the byte budget for a large response that is about to be sent; otherwise 0. */
    answerBytes: number
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
