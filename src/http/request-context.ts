/** Declares the properties that Parley adds to Fastify's requests and to the configuration of routes. */
import type { CreateBody } from '../job/create-body.ts'
import type { LargeBody } from '../job/read-create-body.ts'
import type { Caller } from './authentication.ts'

/** The body of a request counts in these shares of the byte budget. */
export interface BodyMemory {
  readonly account: string
  /** `uploadBytes` is 0 once the body has been received. */
  uploadBytes: number
  requestBytes: number
  bodyLength: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Fastify creates `routeOptions` again at each access, so the first hook keeps them here. */
    route: FastifyRequest['routeOptions']
    /** `caller` is absent on routes that require no API key. */
    caller: Caller
    /** The request's line in the log names these jobs. */
    jobIds: readonly string[] | null
    /** On routes with `create` or `translation`, the text of a small body is here until the handler has used it. */
    bodyText: string | null
    /** On routes with `create` or `translation`, a thread reads large bodies. The result is here. */
    largeBody: LargeBody | null
    /** `bodyMemory` is null if the request has no body, and after the response was sent. */
    bodyMemory: BodyMemory | null
    /** A large response counts this many bytes until it is fully sent. */
    answerBytes: number
  }
  interface FastifyContextConfig {
    /** `public` is true if the route requires no API key. The admin API, which has its own tokens, is public in this sense. */
    public?: boolean
    /** `bearer` is true if the API key is sent as `Authorization: Bearer KEY` instead of in `x-api-key`. */
    bearer?: boolean
    /** `translation` names the translation of bodies below `/v1` to jobs. */
    translation?: string
    /** `upload` is true if the body is a file, which the route stores while it arrives. */
    upload?: boolean
    /** The route counts as a read. A function returns whether a request is a list, which counts as ten reads. */
    limitReads?: boolean | ((request: FastifyRequest) => boolean)
    /** `cors` is false if pages of other origins may never call the route, whatever `cors.origins` contains. */
    cors?: false
    /** The route creates jobs, so a thread reads large bodies. */
    create?: CreateBody['kind']
  }
}
