/**
 * Responds to requests that have no route before anything of their body is read: 404 for an unknown path, 405 with Allow for
 * another method of a known one (RFC 9110 §15.5.6), and what OPTIONS and preflights ask for. No key is needed: there is nothing
 * to protect.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Cors, isPreflight } from './cors.ts'
import { DeclaredRoutes } from './declared-routes.ts'
import { sendError } from './envelope.ts'
import { methodNotAllowed, noSuchRoute } from './errors.ts'

/** Longer paths are cut in error details. */
const LONGEST_PATH = 100

export type OnRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** Call this before the routes are declared, so that it sees all of them. Returns what responds to a request without a route. */
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
    // A preflight of an unknown path passes, so that the page can read the 404 of its request.
    if (mayCall && isPreflight(request)) return void cors.answerPreflight(reply)
    // The router may reject a path that has the method, as one with a part that is too long.
    if (known === null || (known.methods.has(method) && method !== 'OPTIONS')) {
      return done(noSuchRoute(method, shortPath(path)))
    }
    reply.header('allow', known.allow)
    if (method === 'OPTIONS') return void reply.code(204).send()
    done(methodNotAllowed(method, shortPath(path), known.allow))
  }
}

/** The path without its query, which may hold what no response should repeat, and cut where it is long. */
export function shortPath(url: string): string {
  const path = pathOf(url)
  return path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}
