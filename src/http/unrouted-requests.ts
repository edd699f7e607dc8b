/**
 * Responds to requests that have no route before anything of their body is read: 404 for an unknown path, 405 with Allow for an
 * unsupported method of a known one (RFC 9110 §15.5.6), and the responses to OPTIONS and preflights. They need no key, because
 * there is nothing to protect.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { type OtherApi, sendErrorOf } from './envelope.ts'
import { methodNotAllowed, noSuchRoute } from './errors.ts'

/** Longer paths are truncated in error details. */
const LONGEST_PATH = 100

type OnRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/**
 * Call this before the routes are declared, so that it sees all of them. Returns the handler for requests without a route.
 */
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
    // A preflight for an unknown path succeeds, so that the page can read the 404 of its request.
    if (mayCall && isPreflight(request)) return void cors.answerPreflight(reply)
    // The router may reject a path although it supports the method, for example because a part of it is too long.
    if (known === null || (known.methods.has(method) && method !== 'OPTIONS')) {
      return done(noSuchRoute(method, shortPath(path)))
    }
    reply.header('allow', known.allow)
    if (method === 'OPTIONS') return void reply.code(204).send()
    done(methodNotAllowed(method, shortPath(path), known.allow))
  }
}

/** The path, truncated, and without its query, which may contain data that no response should repeat. */
export function shortPath(url: string): string {
  const path = pathOf(url)
  return path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}

/** The router's limit: a longer part of a path does not match a parameter. */
export const LONGEST_PARAMETER = 8192

interface Declared {
  /** The pattern, split at slashes. */
  readonly parts: readonly string[]
  readonly method: string
  /** Hooks of a plugin may still change its config. */
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

  /** Collects every route that is declared after this. */
  watch(app: FastifyInstance): void {
    app.addHook('onRoute', (route: RouteOptions) => {
      const parts = route.url.split('/')
      for (const method of [route.method].flat()) this.#routes.push({ parts, method, route })
    })
  }

  /** Null for an unknown path. Use this only for requests without a route, because it looks at every route. */
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
