/** The admin API, which the dashboard uses. One token grants access to all of it, and no response may be cached. */
import type { FastifyInstance } from 'fastify'
import { addressOf } from '../network-of.ts'
import { convertQueryNumbers } from '../query-numbers.ts'
import { accountActionRoutes } from './account-actions.ts'
import { accountRoutes } from './accounts.ts'
import { AdminAuthentication } from './admin-authentication.ts'
import type { AdminContext, AdminOptions } from './admin-context.ts'
import { auditRoute } from './audit-log.ts'
import { adminCallbackRoutes } from './callbacks.ts'
import { eventRoute } from './events.ts'
import { jobActionRoutes } from './job-actions.ts'
import { adminJobRoutes } from './jobs.ts'
import { keyRoutes } from './keys.ts'
import { auditName, operatorOf } from './operator-header.ts'
import { overviewRoute } from './overview.ts'
import { settingsRoute } from './settings.ts'
import { usageRoute } from './usage.ts'

const BASE = '/admin/api'

export async function adminRoutes(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const authentication = new AdminAuthentication(options.token, options.clock)
  const context: AdminContext = {
    ...options,
    perform: async (request, action) => options.auditLog.perform(auditName(request), action),
    logAction: (request, what, details) => {
      const from = addressOf(request)
      options.onAction({ what, details, requestId: request.id, from, operator: operatorOf(request) })
    },
  }
  await app.register(
    (scope, _options, done) => {
      scope.addHook('onRoute', (route) => {
        // These routes have their own authentication, and pages of other origins may not call them.
        route.config = { ...route.config, public: true, cors: false }
        route.schema = { tags: ['Admin'], security: [{ adminToken: [] }], ...route.schema }
      })
      scope.addHook('onRequest', (request, reply, next) => {
        const error = authentication.errorFor(request.headers.authorization, addressOf(request))
        reply.header('cache-control', 'no-store')
        if (error?.status === 401) reply.header('www-authenticate', 'Bearer')
        next(error ?? undefined)
      })
      scope.addHook('preValidation', convertQueryNumbers)
      overviewRoute(scope, context)
      eventRoute(scope, context)
      adminJobRoutes(scope, context)
      jobActionRoutes(scope, context)
      adminCallbackRoutes(scope, context)
      accountRoutes(scope, context)
      accountActionRoutes(scope, context)
      keyRoutes(scope, context)
      usageRoute(scope, context)
      auditRoute(scope, context)
      settingsRoute(scope, context)
      done()
    },
    { prefix: BASE },
  )
}
