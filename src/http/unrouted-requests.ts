/**
 * Responds to requests that have no route before anything of their body is read: 404 for an unknown path, 405 with Allow for
 * an unsupported method of a known one (RFC 9110 §15.5.6), and the responses to OPTIONS and preflights. They need no key,
 * because there is nothing to protect.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { DeclaredRoutes } from './declared-routes.ts'
import { sendError } from './envelope.ts'
import { methodNotAllowed, noSuchRoute } from './errors.ts'

/** Longer paths are truncated in error details. */
const LONGEST_PATH = 100

export type OnRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/**
 * Call this before the routes are declared, so that it sees all of them. Returns the handler for requests without a route.
 */
export function answerUnrouted(app: FastifyInstance, cors: Cors): OnRequest {
  const routes = new DeclaredRoutes()
  routes.watch(app)
  app.setNotFoundHandler((request, reply) => {
    sendError(reply, noSuchRoute(request.method, shortPath(request.url)))
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
