/** The properties that Parley adds to Fastify's requests. */
import type { CreateBody } from '../job/create-body.ts'
import type { LargeBody } from '../job/read-create-body.ts'
import type { Caller } from './authentication.ts'

/** The share of the byte budget that the body of a request uses. */
export interface BodyMemory {
  readonly account: string
  /** It becomes 0 once the body has been received. */
  uploadBytes: number
  requestBytes: number
  bodyLength: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The value of `routeOptions`, which Fastify would create again at each access. The first hook sets it. */
    route: FastifyRequest['routeOptions']
    /** Set before the handler of any route that requires a key. */
    caller: Caller
    /** The jobs that the request concerns, for its log line. */
    jobIds: readonly string[] | null
    /** The text of a small body, on routes with `create` or `translation`, until its elements are built. */
    bodyText: string | null
    /** The result of a thread that read a large body, on routes with `create`. */
    largeBody: LargeBody | null
    /** The share of the byte budget that the body uses; null without a body, and after the response was sent. */
    bodyMemory: BodyMemory | null
    /** Bytes counted for a large response that is about to be sent; otherwise 0. */
    answerBytes: number
  }
  interface FastifyContextConfig {
    /** Does not require a key: health, metrics, documents. */
    public?: boolean
    /** The API key is sent as `Authorization: Bearer KEY` instead of in `x-api-key`. */
    bearer?: boolean
    /** The name of the translation with which a thread turns a large body into a job. */
    translation?: string
    /** The body is a file, which the route stores while it arrives. */
    upload?: boolean
    /** Counts towards the tier's reads per minute; a function returns whether the request walks through stored jobs. */
    limitReads?: boolean | ((request: FastifyRequest) => boolean)
    /** False if pages of other origins are never allowed, regardless of `cors.origins`. */
    cors?: false
    /** Creates jobs: a large body is read by a thread. */
    create?: CreateBody['kind']
  }
}
