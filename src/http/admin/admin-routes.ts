/** The admin API, which the dashboard uses. One token grants access to all of it, and no response may be cached. */

import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { accountActions } from '../../admin/actions/accounts.ts'
import { callbackActions } from '../../admin/actions/callbacks.ts'
import { jobActions } from '../../admin/actions/jobs.ts'
import { keyActions } from '../../admin/actions/keys.ts'
import type { Clock } from '../../clock.ts'
import { AddressLimit } from '../address-limit.ts'
import { type HttpError, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { addressOf } from '../network-of.ts'
import { convertQuery } from '../query.ts'
import { actionRoutes } from './action-routes.ts'
import type { AdminOptions } from './admin-context.ts'
import { eventRoute, overviewRoute, settingsRoute } from './live-routes.ts'
import {
  accountRoute,
  accountsRoute,
  auditRoute,
  callbackRoutes,
  jobRoutes,
  keysRoute,
  usageEventsRoute,
  usageRoute,
} from './read-routes.ts'

const BASE = '/admin/api'

export async function adminRoutes(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const authentication = new AdminAuthentication(options.token, options.clock)
  await app.register(
    (scope, _none, done) => {
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
      scope.addHook('preValidation', convertQuery)
      overviewRoute(scope, options)
      eventRoute(scope, options)
      jobRoutes(scope, options)
      actionRoutes(scope, options, jobActions)
      callbackRoutes(scope, options)
      actionRoutes(scope, options, callbackActions)
      accountsRoute(scope, options)
      actionRoutes(scope, options, accountActions)
      accountRoute(scope, options)
      keysRoute(scope, options)
      actionRoutes(scope, options, keyActions)
      usageRoute(scope, options)
      usageEventsRoute(scope, options)
      auditRoute(scope, options)
      settingsRoute(scope, options)
      done()
    },
    { prefix: BASE },
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
    const [, given] = /^bearer ([^ ]+)$/i.exec(authorization ?? '') ?? []
    // First, because wrong tokens from an address that others share must not lock out who has the right one.
    if (given !== undefined && this.#digest && timingSafeEqual(digestOf(given), this.#digest)) return null
    const waitMs = this.#failures.waitMs(address)
    if (waitMs > 0) return tooManyWrongTokens(Math.ceil(waitMs / 1000))
    // A request without a token is not a guess: a browser that opens the page sends none.
    if (given !== undefined) this.#failures.count(address)
    return tokenRequired()
  }
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
