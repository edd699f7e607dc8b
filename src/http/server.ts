/**
 * Creates the HTTP server: everything that happens to a request before and after the handler of its route, and which response a
 * thrown exception becomes.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify'
import { CLIENT_GONE } from '../client-gone.ts'
import { FieldProblem } from '../job/field-rules.ts'
import { StoreUnavailable, UnknownAccount } from '../store/store.ts'
import { type Authentication, isCaller } from './authentication.ts'
import { Cors } from './cors.ts'
import { type OtherApi, sendErrorOf } from './envelope.ts'
import {
  HttpError,
  internalError,
  invalid,
  keyRequired,
  noSuchJob,
  noSuchRoute,
  notJson,
  notJsonType,
} from './errors.ts'
import { type LargeBodyOptions, readJsonBodies } from './json-body.ts'
import { LARGE_ANSWER, type LargeAnswers } from './large-answers.ts'
import { unavailable } from './load-shedding/unavailable.ts'
import { SIMULATED_HEADER } from './parley-headers.ts'
import type { PipelinedRequests } from './pipelined-requests.ts'
import type { RejectionPacing } from './rejection-pacing.ts'
import type { RequestBodies } from './request-bodies.ts'
import { answerBrokenRequest, answerUnrouted, LONGEST_PARAMETER, shortPath } from './unrouted-requests.ts'
import './request-context.ts'
import { trustedProxies } from './network-of.ts'
import type { UnreadBodies } from './unread-bodies.ts'
import { validationError } from './validation-errors.ts'

export interface ServerOptions {
  readonly authentication: Authentication
  /** If true, responses to callers have the header `x-parley-simulated`. */
  readonly simulated: boolean
  /** Errors of OpenAI's API have its shape. */
  readonly otherApi: OtherApi
  readonly corsOrigins: readonly string[]
  readonly trustProxy: boolean | string
  /** `maxDepth` limits the nesting of all bodies, not only of large ones. */
  readonly largeBodies: LargeBodyOptions
  readonly headerTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly bodies: RequestBodies
  readonly answers: LargeAnswers
  readonly rejections: RejectionPacing
  readonly unread: UnreadBodies
  readonly pipelined: PipelinedRequests
  /** An upload has a minimum rate instead of a time limit. */
  readonly isUploading: (socket: Socket) => boolean
  /** Adds the limits on connections, which apply before anything is read. */
  readonly guard: (server: Server) => void
  /** Aborts when the listener closes. Responses then close their connections, so that clients reach another node. */
  readonly closing: AbortSignal
  /** Aborts when the shutdown begins. Idle connections are then closed after each response. */
  readonly stopping: AbortSignal
  /** `route` is the pattern of the route, because the URL may contain IDs. */
  readonly metrics: { requestCompleted(method: string, route: string, status: number, ms: number): void }
  readonly log: Record<'info' | 'warn', (fields: Record<string, unknown>, message: string) => void>
  /** Reports each error that the caller did not cause. */
  readonly onError: (error: Error, requestId: string) => void
}

/** A caller's request ID must match this pattern, so that it is safe in headers and logs. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/
/** Node checks for timed-out requests at this interval. */
const CONNECTIONS_CHECK_MS = 1000
/** Proxies usually close idle connections after 60 s. This time is longer, so that they never use a closing connection. */
const KEEP_ALIVE_MS = 75_000
/** Limits the headers of a request. A header takes far more memory than its text, and 16 KiB of text can have 2,000 headers. */
const MAX_HEADERS = 200

export function createServer(options: ServerOptions): FastifyInstance {
  const { authentication, bodies, answers, rejections, unread, pipelined, closing, stopping, onError } =
    options
  const cors = new Cors(options.corsOrigins, options.otherApi)
  const app = fastify({
    logger: false,
    trustProxy: trustedProxies(options.trustProxy),
    // While the server shuts down, open connections can still create jobs and get 202.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: options.headerTimeoutMs,
      connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
      // Node would reject such a request without a body. `hostError` sends an error in the usual shape.
      requireHostHeader: false,
    },
    genReqId: requestId,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        // All schemas are our own. Checking them against the meta-schema would take longer than compiling them.
        validateSchema: false,
      },
      onCreate: compileOnFirstUse,
    },
    clientErrorHandler: (error, socket) => {
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && options.isUploading(socket)) return
      pipelined.answerBroken(socket, error, () => {
        const id = requestId({ headers: {} })
        const status = answerBrokenRequest(error, socket, id, options.otherApi)
        if (status !== null) report({ id, method: 'none' }, status, 0, options)
      })
    },
    frameworkErrors: (_error, request, reply) => void answerBadUrl(request, reply, cors, options),
  })
  app.server.maxHeadersCount = MAX_HEADERS
  app.decorateRequest('route')
  app.decorateRequest('caller')
  app.decorateRequest('jobIds', null)
  app.decorateRequest('bodyText', null)
  app.decorateRequest('largeBody', null)
  app.decorateRequest('bodyMemory', null)
  app.decorateRequest('answerBytes', 0)
  // The schemas of responses only document them. Fastify would use them to filter fields.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  const answer404 = answerUnrouted(app, cors, options.otherApi)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    if (closing.aborted) reply.header('connection', 'close')
    const route = request.routeOptions
    request.route = route
    if (cors.enabled && route.config.cors !== false && !request.is404) cors.allow(request, reply)
    const error = hostError(request.raw)
    if (error) done(error)
    else if (request.is404) answer404(request, reply, done)
    else if (route.config.public) done()
    else {
      // Caches must store neither the contents of jobs nor the fact that a job does not exist.
      if (request.method === 'GET') reply.header('cache-control', 'no-store')
      if (options.simulated) reply.header(SIMULATED_HEADER, 'true')
      // All other routes require a key, which is checked before the rest of the request (SPEC §5).
      const caller = authentication.callerOf(request)
      if (typeof caller === 'string') done(keyRequired(caller))
      else if (caller instanceof Promise) {
        caller.then((found) => {
          if (isCaller(found)) request.caller = found
          done(isCaller(found) ? undefined : keyRequired(found))
        }, done)
      } else {
        request.caller = caller
        done()
      }
    }
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    bodies.release(request)
    const isSmall = typeof payload === 'string' && payload.length <= LARGE_ANSWER
    // Fastify does not call `onResponse` if the client has disconnected.
    if (reply.raw.destroyed) report(request, CLIENT_GONE, reply.elapsedTime, options)
    else if (!isSmall && isLong(reply, payload)) {
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) report(request, CLIENT_GONE, reply.elapsedTime, options)
      })
    }
    if (!request.raw.complete) unread.discard(request, reply)
    if (isSmall && request.answerBytes === 0) done(null, payload)
    else if (request.caller === undefined) {
      rejections.paceDownload(request, lengthOf(reply), () => answers.send(request, reply, payload, done))
    } else answers.send(request, reply, payload, done)
  })
  app.addHook('onResponse', (request, reply, done) => {
    report(request, reply.statusCode, reply.elapsedTime, options)
    // While the server shuts down, idle connections would delay the end.
    if (stopping.aborted) setImmediate(() => app.server.closeIdleConnections())
    done()
  })
  readJsonBodies(app, bodies, options.largeBodies)
  app.setErrorHandler((error: Error, request, reply) => {
    // Fastify would close the connection after an error in a body, so a client that still sends the body would miss the
    // response. `UnreadBodies` reads the rest of the body instead.
    if (!closing.aborted && reply.hasHeader('connection')) reply.removeHeader('connection')
    const httpError = httpErrorOf(error, request)
    // The caller did not cause this error, so the response is not delayed.
    if (httpError.status === 500 || error instanceof StoreUnavailable) {
      onError(error, request.id)
      void sendErrorOf(options.otherApi, reply, httpError)
    } else {
      reject(request, reply, httpError, options)
    }
  })
  // Node would answer an unknown expectation with an empty body. RFC 9110 §10.1.1 allows the server to ignore it.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.server.on('checkContinue', (request, response) => {
    bodies.expectContinue(request, response)
    app.server.emit('request', request, response)
  })
  pipelined.guard(app.server)
  options.guard(app.server)
  return app
}

const processId = randomBytes(9).toString('base64url')
let requests = 0

/**
 * Combines a random ID of the process with a counter, because this is much faster than generating a random ID for each request.
 */

function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  if (typeof given === 'string' && REQUEST_ID.test(given)) return given
  requests += 1
  return `${processId}-${requests.toString(36)}`
}

/** RFC 9112 §3.2: HTTP/1.1 requires exactly one Host header. Of several, a proxy and this server might use different ones. */
function hostError({ httpVersion, rawHeaders }: IncomingMessage): HttpError | undefined {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts > 1) return invalid('Host: must be given exactly once')
  return hosts === 0 && httpVersion === '1.1' ? invalid('Host: is required') : undefined
}

type AjvHook = NonNullable<NonNullable<FastifyServerOptions['ajv']>['onCreate']>
type Ajv = Parameters<AjvHook>[0]
type Validate = ReturnType<Ajv['compile']>

/** Compiles a schema at its first use. Most of the sixty are never used, and compiling all takes a tenth of the start time. */
function compileOnFirstUse(ajv: Ajv): void {
  const compileNow = ajv.compile.bind(ajv)
  const compile = (schema: Parameters<Ajv['compile']>[0]) => {
    let validate: Validate | undefined
    const validateLater = (data: unknown) => {
      validate ??= compileNow(schema)
      const isValid = validate(data)
      // Fastify reads the errors from this property of the function.
      validateLater.errors = validate.errors
      return isValid
    }
    validateLater.errors = undefined as Validate['errors']
    return validateLater
  }
  Object.assign(ajv, { compile })
}

function httpErrorOf(error: Error, request: FastifyRequest): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof FieldProblem) return invalid(error.message)
  if (error instanceof StoreUnavailable) return unavailable()
  // The account was deleted with its keys.
  if (error instanceof UnknownAccount) return keyRequired('unknown')
  if ('validation' in error && Array.isArray(error.validation)) {
    return invalid(validationError(error.validation[0]))
  }
  const code = 'code' in error ? error.code : null
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return notJsonType()
    case 'ECONNRESET':
      // If the caller disconnected while it sent the body, the server is not to blame.
      return request.raw.complete
        ? internalError()
        : notJson('The connection closed before the whole body arrived.')
    default:
      return internalError()
  }
}

/** Returns whether sending the response takes noticeable time. Event streams, which have no length, do not count. */
function isLong(reply: FastifyReply, payload: unknown): boolean {
  const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload)
  return (isWhole ? payload.length : lengthOf(reply)) > LARGE_ANSWER
}

function lengthOf(reply: FastifyReply): number {
  return Number(reply.getHeader('content-length') ?? 0)
}

function reject(
  request: FastifyRequest,
  reply: FastifyReply,
  error: HttpError,
  { bodies, rejections, otherApi }: ServerOptions,
): void {
  rejections.pace(request, () => void sendErrorOf(otherApi, reply, error))
  // The body need not stay in memory while the response is delayed.
  bodies.release(request)
}

/** Responds to a URL that cannot be decoded. In the path of a job, it counts as an unknown job ID. */
async function answerBadUrl(
  request: FastifyRequest,
  reply: FastifyReply,
  cors: Cors,
  options: ServerOptions,
) {
  reply.header('x-request-id', request.id).header('cache-control', 'no-store')
  cors.allow(request, reply)
  options.unread.discard(request, reply)
  // Fastify runs no hooks for such a request.
  reply.raw.once('finish', () => report(request, reply.statusCode, reply.elapsedTime, options))
  const path = shortPath(request.raw.url ?? '')
  if (!path.startsWith('/api/v1/messages/')) {
    return reject(request, reply, noSuchRoute(request.method, path), options)
  }
  try {
    const caller = await options.authentication.callerOf(request)
    reject(request, reply, isCaller(caller) ? noSuchJob() : keyRequired(caller), options)
  } catch (error) {
    reject(request, reply, httpErrorOf(error as Error, request), options)
  }
}

type ReportedRequest = Pick<FastifyRequest, 'id' | 'method'> &
  Partial<Pick<FastifyRequest, 'route' | 'ip' | 'caller' | 'jobIds'>>

function report(request: ReportedRequest, status: number, ms: number, { metrics, log }: ServerOptions): void {
  const { id, method, route: { url: route = 'none' } = {}, ip, caller, jobIds } = request
  metrics.requestCompleted(method, route, status, ms)
  const fields = {
    request_id: id,
    method,
    route,
    status,
    ms: Math.round(ms * 10) / 10,
    // With `trust_proxy`, this is the address in X-Forwarded-For.
    from: ip ?? null,
    account: caller?.account ?? null,
    job_ids: jobIds ?? null,
  }
  if (status >= 500) log.warn(fields, 'request completed')
  else log.info(fields, 'request completed')
}
