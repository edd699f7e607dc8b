/**
 * Responds to requests without a route, before any of their body is read: 404 for an unknown path, 405 with Allow for an
 * unsupported method (RFC 9110 §15.5.6), and 204 for OPTIONS and preflights. These responses need no key, because they reveal
 * nothing secret.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { type OtherApi, sendErrorOf } from './envelope.ts'
import { methodNotAllowed, noSuchRoute } from './errors.ts'

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
