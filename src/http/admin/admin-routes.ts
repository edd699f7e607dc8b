/** The admin API, which the dashboard and operators' own tools use. It requires an admin token. No response may be cached. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { accountActions } from '../../admin/actions/accounts.ts'
import { batchActions } from '../../admin/actions/batches.ts'
import { callbackActions } from '../../admin/actions/callbacks.ts'
import { jobActions } from '../../admin/actions/jobs.ts'
import { keyActions } from '../../admin/actions/keys.ts'
import { tokenActions } from '../../admin/actions/tokens.ts'
import { type AdminCaller, AdminTokens } from '../../admin/admin-tokens.ts'
import { readOnlyToken, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { addressOf } from '../network-of.ts'
import { convertQuery } from '../query.ts'
import { WrongKeyLimit } from '../wrong-key-limit.ts'
import { actionRoutes } from './action-routes.ts'
import type { AdminOptions } from './admin-context.ts'
import { eventRoute, overviewRoute, settingsRoute } from './live-routes.ts'
import {
  accountRoute,
  accountsRoute,
  auditRoute,
  batchRoutes,
  callbackRoutes,
  jobRoutes,
  keysRoute,
  tokensRoute,
  usageEventsRoute,
  usageRoute,
} from './read-routes.ts'

const BASE = '/admin/api'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who sent the request, according to its admin token. */
    admin: AdminCaller
  }
  interface FastifyContextConfig {
    /** True if the route changes something or shows secrets, so that a read-only admin token may not call it. */
    adminAction?: true
  }
}

export async function adminRoutes(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const tokens = new AdminTokens(options.token, options.store, options.clock)
  const failures = new WrongKeyLimit(options.clock, MAX_FAILURES)
  app.decorateRequest('admin')
  await app.register(
    (scope, _none, done) => {
      scope.addHook('onRoute', (route) => {
        // Marked `public` because these routes require an admin token instead of an API key.
        route.config = { ...route.config, public: true, cors: false }
        route.schema = { tags: ['Admin'], security: [{ adminToken: [] }], ...route.schema }
      })
      scope.addHook('onRequest', async (request, reply) => {
        reply.header('cache-control', 'no-store')
        const given = tokenOf(request)
        // The token is checked even if the address must wait: wrong tokens from a shared address must not lock out operators
        // with a valid one.
        const address = addressOf(request)
        const waitMs = failures.waitMs(address)
        const caller = given === undefined ? null : await tokens.callerOf(given, waitMs === 0)
        if (caller === null) {
          if (waitMs > 0) throw tooManyWrongTokens(Math.ceil(waitMs / 1000))
          // A request without a token is not a guess: the dashboard sends one before the operator signs in.
          if (given !== undefined) failures.count(address)
          reply.header('www-authenticate', 'Bearer')
          throw tokenRequired()
        }
        if (caller.readOnly && request.route.config.adminAction) throw readOnlyToken()
        request.admin = caller
      })
      scope.addHook('preValidation', convertQuery)
      overviewRoute(scope, options)
      eventRoute(scope, options, async (request) => {
        // While the database does not respond, the stream stays open, because a revocation cannot be read.
        const caller = await tokens.callerOf(tokenOf(request) ?? '', false).catch(() => request.admin)
        return caller !== null
      })
      jobRoutes(scope, options)
      actionRoutes(scope, options, jobActions)
      batchRoutes(scope, options)
      actionRoutes(scope, options, batchActions)
      callbackRoutes(scope, options)
      actionRoutes(scope, options, callbackActions)
      accountsRoute(scope, options)
      actionRoutes(scope, options, accountActions)
      accountRoute(scope, options)
      keysRoute(scope, options)
      actionRoutes(scope, options, keyActions)
      tokensRoute(scope, options)
      actionRoutes(scope, options, tokenActions)
      usageRoute(scope, options)
      usageEventsRoute(scope, options)
      auditRoute(scope, options)
      settingsRoute(scope, options)
      done()
    },
    { prefix: BASE },
  )
}

function tokenOf({ headers }: FastifyRequest): string | undefined {
  return /^bearer ([^ ]+)$/i.exec(headers.authorization ?? '')?.[1]
}

/** How many wrong tokens an address may send in a minute. */
const MAX_FAILURES = 10
