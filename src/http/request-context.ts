/** What a request has in addition to what Fastify provides. */
import type { CreateBody } from '../job/create-body.ts'
import type { LargeBody } from '../job/read-create-body.ts'
import type { Caller } from './authentication.ts'

/** What the body of a request takes of the budget. */
export interface BodyMemory {
  readonly account: string
  /** 0 once it is received. */
  uploadBytes: number
  requestBytes: number
  bodyLength: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What `routeOptions` returned once: Fastify makes it again at each read. Set by the first hook. */
    route: FastifyRequest['routeOptions']
    /** Set before the handler of any route that requires a key. */
    caller: Caller
    /** The jobs that the request concerns, for its log line. */
    jobIds: readonly string[] | null
    /** The text of a small body, on routes with `create`, until its elements are made. */
    bodyText: string | null
    /** What a thread made of a large body, on routes with `create`. */
    largeBody: LargeBody | null
    /** What the body takes of the byte budget; null without a body, and once the response is sent. */
    bodyMemory: BodyMemory | null
    /** What is counted of the byte budget for a large response that is about to be sent; otherwise 0. */
    answerBytes: number
  }
  interface FastifyContextConfig {
    /** Requires no key: health, metrics, documents. */
    public?: boolean
    /** Counts towards the tier's reads per minute; a function returns whether the request walks through stored jobs. */
    limitReads?: boolean | ((request: FastifyRequest) => boolean)
    /** False where pages of other origins are never allowed, whatever `cors.origins` says. */
    cors?: false
    /** Creates jobs: a large body is read by a thread. */
    create?: CreateBody['kind']
  }
}
