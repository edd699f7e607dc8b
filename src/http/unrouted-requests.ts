/**
 * Responds to requests that reach no route. Those that the server could not read (invalid HTTP, not received in time, too many
 * header bytes, or too many waiting requests on one connection) get an error and lose their connection. Those without a route get
 * a response before any of their body is read: 404 for an unknown path, 405 with Allow for an unsupported method (RFC 9110
 * §15.5.6), and 204 for OPTIONS and preflights. These responses need no key, because they reveal nothing secret.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { JSON_TYPE, type OtherApi, sendErrorOf } from './envelope.ts'
import { HttpError, methodNotAllowed, noSuchRoute } from './errors.ts'
import { TOO_MANY_WAIT } from './pipelined-requests.ts'

/** Maximum characters of a path in the details of an error. */
const LONGEST_PATH = 100

type OnRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** Returns the handler for requests without a route. Call it before the routes are declared, because it collects them. */
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
    // A preflight for an unknown path succeeds. The page's request itself then gets a 404, which the page can read.
    if (mayCall && isPreflight(request)) return void cors.answerPreflight(reply)
    // The router can reject a path although it supports the method, for example because a parameter is too long.
    if (known === null || (known.methods.has(method) && method !== 'OPTIONS')) {
      return done(noSuchRoute(method, shortPath(path)))
    }
    reply.header('allow', known.allow)
    if (method === 'OPTIONS') return void reply.code(204).send()
    done(methodNotAllowed(method, shortPath(path), known.allow))
  }
}

/** Returns the path without its query, which may contain secrets that no response should repeat. Truncates a long path. */
export function shortPath(url: string): string {
  const path = pathOf(url)
  return path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}

/** Maximum characters of a path parameter. The router matches no longer one. */
export const LONGEST_PARAMETER = 8192

interface Declared {
  /** The segments of the path pattern. */
  readonly parts: readonly string[]
  readonly method: string
  /** The options of the route, whose config the hooks of plugins may still change. */
  readonly route: RouteOptions
}

interface PathMethods {
  /** The value of the Allow header, such as `GET, HEAD, OPTIONS`. */
  readonly allow: string
  readonly methods: ReadonlySet<string>
  /** False if pages of other origins can never call the path. */
  readonly cors: boolean
}

/** Which methods a path supports, and whether pages of other origins may call it. */
class DeclaredRoutes {
  readonly #routes: Declared[] = []

  /** Collects every route that is declared after this call. */
  watch(app: FastifyInstance): void {
    app.addHook('onRoute', (route: RouteOptions) => {
      const parts = route.url.split('/')
      for (const method of [route.method].flat()) this.#routes.push({ parts, method, route })
    })
  }

  /** Returns null for an unknown path. It compares all routes, so it is only for requests without a route. */
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

/**
 * The path is searched only in this many characters at the beginning of a request, because its prefix decides the shape of the
 * error.
 */
const READ_CHARACTERS = 100
/** After the response, the connection stays open for at most this long, so that the client can read it. */
const LINGER_MS = 1000
const RETRY_S = 5

/** An error of Node's HTTP parser, with the bytes that it could not parse, or the error of a timeout. */
interface BrokenRequest extends Error {
  readonly code?: string
  readonly rawPacket?: unknown
}

/**
 * Returns the path of the request. It is known if the headers have arrived, or if the bytes that could not be parsed begin with
 * it; otherwise returns an empty text.
 */
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
  // If a connection is destroyed while it has unread bytes, the client gets a reset and may lose the response. So the client
  // closes the connection; the timer closes it if the client does not.
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
