/** The properties that Parley adds to Fastify's requests and to the configuration of routes. */
import type { CreateBody } from '../job/create-body.ts'
import type { LargeBody } from '../job/read-create-body.ts'
import type { Caller } from './authentication.ts'

/** What the body of a request counts in the byte budget, in bytes. */
export interface BodyMemory {
  readonly account: string
  /** 0 once the body has been received. */
  uploadBytes: number
  requestBytes: number
  bodyLength: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The same as `routeOptions`, which Fastify creates again at each access. The first hook sets it. */
    route: FastifyRequest['routeOptions']
    /** Set before the handler of any route that requires an API key runs. */
    caller: Caller
    /** The jobs of the request, for its line in the log. */
    jobIds: readonly string[] | null
    /** The text of a small body, on routes with `create` or `translation`, until the handler has used it. */
    bodyText: string | null
    /** The result of the thread that read a large body, on routes with `create` or `translation`; otherwise null. */
    largeBody: LargeBody | null
    /** Null if the request has no body, and after the response was sent. */
    bodyMemory: BodyMemory | null
    /** The counted bytes of a large response that is not fully sent; otherwise 0. */
    answerBytes: number
  }
  interface FastifyContextConfig {
    /**
     * The route requires no API key: health, metrics, documents, the dashboard, and the admin API, which has its own tokens.
     */
    public?: boolean
    /** The API key is sent as `Authorization: Bearer KEY` instead of in `x-api-key`. */
    bearer?: boolean
    /** The name of the translation with which a thread turns a large body into a job, below `/v1`. */
    translation?: string
    /** The body is a file, which the route stores while it arrives. */
    upload?: boolean
    /**
     * The route counts towards the tier's reads per minute. A function decides whether the request is a list, which counts as
     * ten reads.
     */
    limitReads?: boolean | ((request: FastifyRequest) => boolean)
    /** False if pages of other origins may never call the route, whatever `cors.origins` contains. */
    cors?: false
    /** The route creates jobs, so a thread reads large bodies. */
    create?: CreateBody['kind']
  }
}
