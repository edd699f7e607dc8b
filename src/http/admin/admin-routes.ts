/** The admin API, which the dashboard uses. One token grants access to all of it, and no response may be cached. */

import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import type { Clock } from '../../clock.ts'
import { AddressLimit } from '../address-limit.ts'
import { sendData } from '../envelope.ts'
import { type HttpError, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { addressOf } from '../network-of.ts'
import { success } from '../openapi/schemas.ts'
import { convertQueryNumbers } from '../query-numbers.ts'
import { accountActionRoutes } from './account-actions.ts'
import { accountRoutes } from './accounts.ts'
import type { AdminContext, AdminOptions } from './admin-context.ts'
import { auditRoute } from './audit-log.ts'
import { adminCallbackRoutes } from './callbacks.ts'
import { eventRoute } from './events.ts'
import { jobActionRoutes } from './job-actions.ts'
import { adminJobRoutes } from './jobs.ts'
import { keyRoutes } from './keys.ts'
import { auditName, operatorOf } from './operator-header.ts'
import { overviewRoute } from './overview.ts'
import { adminErrors, orNull } from './shapes.ts'
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

/** The route that returns the effective settings. They cannot be changed here. */
const effectiveSettings = Type.Object({
  settings: Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'The settings in the shape of the configuration file, including defaults.',
    },
  ),
  file: orNull(Type.String({ description: 'The configuration file that was read.' })),
  database: Type.String(),
})

function settingsRoute(app: FastifyInstance, { settingsJson }: AdminContext): void {
  app.get(
    '/settings',
    {
      schema: {
        operationId: 'getSettings',
        summary: 'Show the effective settings, without secrets',
        description: 'Passwords and keys in URLs are masked, and the keys of upstreams are omitted.',
        response: { 200: success('The settings.', effectiveSettings), ...adminErrors() },
      },
    },
    (_request, reply) => sendData(reply, 200, 'The effective settings.', settingsJson),
  )
}

/** Wrong tokens that an address may send in a minute. */
const MAX_FAILURES = 10

class AdminAuthentication {
  /** The token's digest, so that tokens of every length compare in the same time; null rejects every request. */
  readonly #digest: Buffer | null
  readonly #failures: AddressLimit

  constructor(token: string | null, clock: Clock) {
    this.#digest = token === null ? null : digestOf(token)
    this.#failures = new AddressLimit(clock, MAX_FAILURES)
  }

  /** Returns null if the request is allowed. */
  errorFor(authorization: string | undefined, address: string): HttpError | null {
    const waitMs = this.#failures.waitMs(address)
    if (waitMs > 0) return tooManyWrongTokens(Math.ceil(waitMs / 1000))
    const [, given] = /^bearer ([^ ]+)$/i.exec(authorization ?? '') ?? []
    if (given !== undefined && this.#digest && timingSafeEqual(digestOf(given), this.#digest)) return null
    // A request without a token is not a guess: a browser that opens the page sends none.
    if (given !== undefined) this.#failures.count(address)
    return tokenRequired()
  }
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
