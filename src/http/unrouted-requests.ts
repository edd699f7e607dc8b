/**
 * Responds to requests that reach no route. Requests that the server could not read get an error and lose their connection.
 * Unknown paths get 404, unsupported methods 405 with Allow (RFC 9110 §15.5.6), and OPTIONS and preflights 204, before any of
 * the body is read. None of these responses needs a key, because they reveal nothing secret.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { JSON_TYPE, type OtherApi, sendErrorOf } from './envelope.ts'
import { HttpError, methodNotAllowed, noSuchRoute } from './errors.ts'
import { TOO_MANY_WAIT } from './pipelined-requests.ts'

const LONGEST_PATH = 100

type OnRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** Returns the handler for requests without a route. Call this before the routes are declared, because it collects them. */
export function answerUnrouted(app: FastifyInstance, cors: Cors, otherApi: OtherApi): OnRequest {
  const routes = new DeclaredRoutes()
  routes.watch(app)
  app.setNotFoundHandler((request, reply) => {
    sendErrorOf(otherApi, reply, noSuchRoute(request.method, shortPath(request.url)))
  })
  return (request, reply, done) => {
    const { method } = request
    const path = pathOf(request.url)
    const known = routes.methodsOf(path)
    const mayCall = known?.cors !== false && cors.allow(request, reply)
    // The page can read the 404 of its own request only if the preflight succeeds.
    if (mayCall && isPreflight(request)) return void cors.answerPreflight(reply)
    // The router can reject a path although it supports the method, for example if a parameter is too long.
    if (known === null || (known.methods.has(method) && method !== 'OPTIONS')) {
      return done(noSuchRoute(method, shortPath(path)))
    }
    reply.header('allow', known.allow)
    if (method === 'OPTIONS') return void reply.code(204).send()
    done(methodNotAllowed(method, shortPath(path), known.allow))
  }
}

/** Removes the query, which may contain secrets that no response should repeat, and truncates a long path. */
export function shortPath(url: string): string {
  const path = pathOf(url)
  return path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}

/** The router does not match longer path parameters. */
export const LONGEST_PARAMETER = 8192

interface Declared {
  readonly parts: readonly string[]
  readonly method: string
  /** The hooks of plugins may still change the config of this route, so the route is not copied. */
  readonly route: RouteOptions
}

interface PathMethods {
  /** The Allow header has this value, such as `GET, HEAD, OPTIONS`. */
  readonly allow: string
  readonly methods: ReadonlySet<string>
  /** `cors` is false if pages of other origins can never call the path. */
  readonly cors: boolean
}

class DeclaredRoutes {
  readonly #routes: Declared[] = []

  watch(app: FastifyInstance): void {
    app.addHook('onRoute', (route: RouteOptions) => {
      const parts = route.url.split('/')
      for (const method of [route.method].flat()) this.#routes.push({ parts, method, route })
    })
  }

  /** Returns null for an unknown path. Compares all routes, so it is too slow for ordinary requests. */
  methodsOf(path: string): PathMethods | null {
    const parts = path.split('/')
    const found = this.#routes.filter((declared) => matches(declared.parts, parts))
    if (found.length === 0) return null
    const methods = new Set([...found.map(({ method }) => method).sort(), 'OPTIONS'])
    return {
      allow: [...methods].join(', '),
      methods,
      cors: found.every(({ route }) => route.config?.cors !== false),
    }
  }
}

function matches(pattern: readonly string[], parts: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*'
  if (isOpen ? parts.length < pattern.length : parts.length !== pattern.length) return false
  return pattern.every((part, at) => {
    const given = parts[at] ?? ''
    if (part.startsWith(':')) return given !== '' && given.length <= LONGEST_PARAMETER
    return part === given || part === '*'
  })
}

/** The prefix of the path decides the shape of the error, so only this many characters of the request are searched for it. */
const READ_CHARACTERS = 100
/** After the response, the client has this long to read it. */
const LINGER_MS = 1000
const RETRY_S = 5

/** Node's parser adds the bytes that it could not parse. A timeout has no such bytes. */
interface BrokenRequest extends Error {
  readonly code?: string
  readonly rawPacket?: unknown
}

/** Returns an empty text if the headers have not arrived and the broken bytes do not begin with the path. */
function pathOfBroken({ rawPacket }: BrokenRequest, socket: Socket & { _httpMessage?: unknown }): string {
  const current = socket._httpMessage as ServerResponse<IncomingMessage> | null | undefined
  if (current?.req.url !== undefined) return current.req.url
  const start = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1', 0, READ_CHARACTERS) : ''
  return /^[A-Z]+ (\S+)/.exec(start)?.[1] ?? ''
}

/** Returns the status of the response; null if the connection was already closed. */
export function answerBrokenRequest(
  error: BrokenRequest,
  socket: Socket,
  id: string,
  otherApi: OtherApi,
): number | null {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return null
  }
  const [status, reason, message] = brokenBy(error.code)
  const isOther = pathOfBroken(error, socket).startsWith(otherApi.prefix)
  const answer = isOther ? otherApi.answerOf(new HttpError(status, message)) : null
  const body = answer?.bodyJson ?? JSON.stringify({ success: false, message })
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `x-request-id: ${id}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${body.length}`,
    ...Object.entries(answer?.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    ...(status === 503 ? [`retry-after: ${RETRY_S}`] : []),
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // Destroying a connection with unread bytes sends a reset, and the client may lose the response. So the client closes the
  // connection, or the timer does.
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.once('close', () => clearTimeout(timer))
  return status
}

function brokenBy(code: string | undefined): [status: number, reason: string, message: string] {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'Request Timeout', 'The request did not arrive in time.']
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'Request Header Fields Too Large', 'The request headers are too large.']
    case TOO_MANY_WAIT:
      return [
        503,
        'Service Unavailable',
        'Too many requests wait on this connection. Read responses before you send more.',
      ]
    default:
      return [400, 'Bad Request', 'The request is not valid HTTP.']
  }
}
