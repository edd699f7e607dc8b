/** The HTTP server: what happens to every request before and after its route. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import cors from '@fastify/cors'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { StoreUnavailable } from '../store/store.ts'
import type { Authentication } from './authentication.ts'
import { parseBody } from './body.ts'
import { JSON_TYPE, sendError } from './envelope.ts'
import {
  HttpError,
  internalError,
  invalid,
  keyRequired,
  noSuchJob,
  noSuchRoute,
  notJson,
  notJsonType,
  tooLarge,
  unavailable,
} from './errors.ts'
import { fieldError } from './field-errors.ts'
import './request-context.ts'

export interface ServerOptions {
  readonly authentication: Authentication
  readonly corsOrigins: readonly string[]
  readonly trustProxy: boolean | string
  readonly jsonDepth: number
  readonly headerTimeoutMs: number
  readonly requestTimeoutMs: number
  /** Whether the server is stopping; connections are then closed after their answer. */
  readonly isStopping: () => boolean
  readonly onAnswer: (answer: Answered) => void
  /** An error that is not the caller's. */
  readonly onError: (error: Error, requestId: string) => void
}

/** What a finished request came to, for log and metrics. It names the route, never the address as sent. */
export interface Answered {
  readonly requestId: string
  readonly method: string
  readonly route: string
  readonly status: number
  readonly ms: number
  /** Where the request came from: the caller's own address where `trust_proxy` lets us know it. */
  readonly from: string | null
  readonly account: string | null
  readonly jobIds: readonly string[] | null
}

/** Ours when the caller's own is missing, or is not fit for a header and a log. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/
/** How often Node looks for requests past their time-out. */
const CONNECTIONS_CHECK_MS = 1000
/** Longer than the usual idle limit of a proxy in front (60 s), so that the proxy closes first. */
const KEEP_ALIVE_MS = 75_000
const LONGEST_JOB_ID = 8192

const EXPOSED_HEADERS = [
  'x-request-id',
  'x-cache',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
]

export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    trustProxy: options.trustProxy,
    // A stopping server still creates jobs for requests on open connections, and answers them 202.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: options.headerTimeoutMs,
      connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
      // Node's own refusal has no body; ours has the one shape.
      requireHostHeader: false,
    },
    genReqId: requestId,
    routerOptions: { maxParamLength: LONGEST_JOB_ID },
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false },
    },
    clientErrorHandler: (error, socket) => answerBrokenRequest(error, socket, options.onAnswer),
    frameworkErrors: (_error, request, reply) => void answerBadUrl(request, reply, options),
  })
  app.decorateRequest('caller')
  app.decorateRequest('jobIds', null)
  app.decorateRequest('bodyBytes', null)
  // Answers are made as JSON text; what else is sent is sent as it is, never reshaped by a schema.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    if (options.isStopping()) reply.header('connection', 'close')
    done(lacksHost(request.raw) ? invalid('Host: is required') : undefined)
  })
  if (options.corsOrigins.length > 0) await allowOrigins(app, options.corsOrigins)
  app.addHook('onRequest', (request, _reply, done) => authenticate(request, options.authentication, done))
  app.addHook('onResponse', (request, reply, done) => {
    options.onAnswer(answered(request, reply))
    // Its client may have been told to keep the connection, which would hold up the stop.
    if (options.isStopping()) setImmediate(() => app.server.closeIdleConnections())
    done()
  })
  readJsonBodies(app, options.jsonDepth)
  app.setNotFoundHandler((request, reply) => {
    sendError(reply, noSuchRoute(request.method, shortPath(request.url)))
  })
  app.setErrorHandler((error: Error, request, reply) => {
    const refused = refusalFor(error, request)
    if (refused.status === 500 || error instanceof StoreUnavailable) options.onError(error, request.id)
    sendError(reply, refused)
  })
  // Expectations other than 100-continue are ignored, as RFC 9110 §10.1.1 allows: Node would answer without a body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  return app
}

function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : newRequestId()
}

const processId = randomBytes(9).toString('base64url')
let requests = 0

/** Tells processes apart by its first half and requests by its second: a random number each would cost far more. */
function newRequestId(): string {
  requests += 1
  return `${processId}-${requests.toString(36)}`
}

/** RFC 9112 §3.2: HTTP/1.1 wants the Host header. */
function lacksHost({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.host === undefined && httpVersion === '1.1'
}

async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  await app.register(cors, {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'POST'],
    allowedHeaders: ['content-type', 'x-api-key', 'idempotency-key', 'x-request-id'],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: 3600,
  })
}

/** SPEC §5: every endpoint wants a key, before anything else is looked at. Unknown routes have nothing to protect. */
function authenticate(
  request: FastifyRequest,
  authentication: Authentication,
  done: (error?: Error) => void,
): void {
  if (request.is404 || request.routeOptions.config.public) {
    done()
    return
  }
  const key = request.headers['x-api-key']
  const found = typeof key === 'string' ? authentication.get(key) : null
  const finish = (caller: Awaited<typeof found>) => {
    if (caller) request.caller = caller
    done(caller ? undefined : keyRequired())
  }
  if (found instanceof Promise) found.then(finish, done)
  else finish(found)
}

function readJsonBodies(app: FastifyInstance, maxDepth: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const value = parseBody(body as Buffer, maxDepth)
      if (request.routeOptions.config.keepBytes) request.bodyBytes = body as Buffer
      done(null, value)
    } catch (error) {
      done(error as Error)
    }
  })
}

function refusalFor(error: Error, request: FastifyRequest): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof StoreUnavailable) return unavailable()
  if ('validation' in error && Array.isArray(error.validation))
    return invalid(fieldError(error.validation[0]))
  const code = 'code' in error ? error.code : null
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return tooLarge(request.routeOptions.bodyLimit)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return notJsonType()
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return notJson('The body is empty.')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return invalid('Content-Length: does not match the body')
    case 'ECONNRESET':
      // Who hung up in the middle of the body reads no answer, but nothing is wrong here.
      return request.raw.complete ? internalError() : notJson('The body did not arrive in full.')
    default:
      return internalError()
  }
}

/** An address that cannot be decoded; under the jobs it is one more id that never was. */
async function answerBadUrl(request: FastifyRequest, reply: FastifyReply, options: ServerOptions) {
  reply.header('x-request-id', request.id)
  // The hooks of ordinary requests do not run for these.
  reply.raw.once('finish', () => options.onAnswer(answered(request, reply)))
  const path = shortPath(request.raw.url ?? '')
  if (!path.startsWith('/api/v1/messages/')) return sendError(reply, noSuchRoute(request.method, path))
  const key = request.headers['x-api-key']
  const caller = typeof key === 'string' ? await options.authentication.get(key) : null
  return sendError(reply, caller ? noSuchJob() : keyRequired())
}

/** Requests that never became one: malformed, too slow, headers too large. */
function answerBrokenRequest(
  error: Error & { code?: string },
  socket: Socket,
  onAnswer: ServerOptions['onAnswer'],
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, reason, message] = brokenBy(error.code)
  const requestId = newRequestId()
  const body = JSON.stringify({ success: false, message })
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `x-request-id: ${requestId}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${body.length}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  onAnswer({
    requestId,
    method: 'none',
    route: 'none',
    status,
    ms: 0,
    from: null,
    account: null,
    jobIds: null,
  })
}

function brokenBy(code: string | undefined): [status: number, reason: string, message: string] {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'Request Timeout', 'The request did not arrive in time.']
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'Request Header Fields Too Large', 'The request headers are too large.']
    default:
      return [400, 'Bad Request', 'The request is not valid HTTP.']
  }
}

function answered(request: FastifyRequest, reply: FastifyReply): Answered {
  return {
    requestId: request.id,
    method: request.method,
    route: request.routeOptions.url ?? 'none',
    status: reply.statusCode,
    ms: reply.elapsedTime,
    from: request.ip ?? null,
    account: request.caller?.account ?? null,
    jobIds: request.jobIds,
  }
}

/** The path without its query, which may hold what no answer should repeat, and not at any length. */
function shortPath(url: string): string {
  const path = url.split('?', 1)[0] ?? ''
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
}
