/** The admin API, which the dashboard is built on: one token for all of it, no callers, nothing kept by anybody between. */
import type { FastifyInstance } from 'fastify'
import { accountActRoutes } from './account-actions.ts'
import { accountRoutes } from './accounts.ts'
import type { AdminParts, AdminRoutes } from './admin-parts.ts'
import { auditRoute } from './audit-log.ts'
import { adminCallbackRoutes } from './callbacks.ts'
import { eventRoute } from './events.ts'
import { AdminGuard } from './guard.ts'
import { jobActRoutes } from './job-actions.ts'
import { jobRecordRoutes } from './jobs.ts'
import { keyRoutes } from './keys.ts'
import { operatorOf, whoIs } from './operator.ts'
import { overviewRoute } from './overview.ts'
import { readQueryNumbers } from './query-numbers.ts'
import { settingsRoute } from './settings.ts'
import { usageRoute } from './usage.ts'

const BASE = '/admin/api'

export async function adminRoutes(app: FastifyInstance, options: AdminRoutes): Promise<void> {
  const guard = new AdminGuard(options.token, options.clock)
  const parts: AdminParts = {
    ...options,
    act: async (request, intended) => options.audit.act(whoIs(request), intended),
    noteAct: (request, what, details) => {
      const { id, ip } = request
      options.onAct({ what, details, requestId: id, from: ip, operator: operatorOf(request) })
    },
  }
  await app.register(
    (scope, _options, done) => {
      scope.addHook('onRoute', (route) => {
        // Who calls is for the guard to say, and no page of another origin is to.
        route.config = { ...route.config, public: true, cors: false }
        route.schema = { tags: ['Admin'], security: [{ adminToken: [] }], ...route.schema }
      })
      scope.addHook('onRequest', (request, reply, next) => {
        const refused = guard.refusal(request.headers.authorization, request.ip)
        reply.header('cache-control', 'no-store')
        if (refused?.status === 401) reply.header('www-authenticate', 'Bearer')
        next(refused ?? undefined)
      })
      scope.addHook('preValidation', (request, _reply, next) => {
        readQueryNumbers(request)
        next()
      })
      overviewRoute(scope, parts)
      eventRoute(scope, parts)
      jobRecordRoutes(scope, parts)
      jobActRoutes(scope, parts)
      adminCallbackRoutes(scope, parts)
      accountRoutes(scope, parts)
      accountActRoutes(scope, parts)
      keyRoutes(scope, parts)
      usageRoute(scope, parts)
      auditRoute(scope, parts)
      settingsRoute(scope, parts)
      done()
    },
    { prefix: BASE },
  )
}
