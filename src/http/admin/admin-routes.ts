/**
 * Serves the admin API to the dashboard and operators' tools. It requires an admin token, limits how many wrong ones an address
 * may send, and its responses are never cached.
 */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { accountActions } from '../../admin/actions/accounts.ts'
import { callbackActions } from '../../admin/actions/callbacks.ts'
import { batchActions, jobActions } from '../../admin/actions/jobs.ts'
import { keyActions } from '../../admin/actions/keys.ts'
import { tokenActions } from '../../admin/actions/tokens.ts'
import { type AdminCaller, AdminTokens } from '../../admin/admin-tokens.ts'
import { effectiveSettings, type MetricFeed, overview } from '../../admin/overview.ts'
import { MinuteCounter } from '../../sharing/minute-counter.ts'
import { Type } from '../../typed-schema.ts'
import { readOnlyToken, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { tooManyListeners } from '../load-shedding/unavailable.ts'
import { addressOf, MAX_NETWORKS, networkOf } from '../network-of.ts'
import { convertQuery } from '../query.ts'
import { actionRoutes } from './action-routes.ts'
import { type AdminOptions, adminErrors } from './admin-context.ts'
import {
  accountRoute,
  accountsRoute,
  auditRoute,
  batchRoutes,
  callbackRoutes,
  jobRoutes,
  keysRoute,
  readRoute,
  tokensRoute,
  usageEventsRoute,
  usageRoute,
} from './read-routes.ts'

function overviewRoute(app: FastifyInstance, { overview: read, samples }: AdminOptions): void {
  readRoute(app, '/overview', {
    operationId: 'getOverview',
    summary: 'Show the current state of the service',
    description:
      'Waiting jobs, assigned jobs and callbacks are counted in the whole database. Everything else describes this node.',
    success: 'The current state and recent metric samples.',
    data: overview,
    read: async () => {
      const now = JSON.stringify(await read())
      return ['The current state.', `${now.slice(0, -1)},"points":[${samples.kept.join(',')}]}`]
    },
  })
}

function settingsRoute(app: FastifyInstance, { settingsJson }: AdminOptions): void {
  readRoute(app, '/settings', {
    operationId: 'getSettings',
    summary: 'Show the effective settings, without secrets',
    description: 'Passwords and keys in URLs are masked, and the keys of upstreams are omitted.',
    success: 'The settings.',
    data: effectiveSettings,
    read: async () => ['The effective settings.', settingsJson],
  })
}

/** A node has at most this many open event streams. */
export const MAX_LISTENERS = 500
/** A client with more unread bytes is disconnected. It has then not read the samples of a few minutes. */
const MAX_BUFFERED_BYTES = 65_536

/** @param isStillAllowed resolves with false once the request's token is revoked or has expired; never rejects */
function eventRoute(
  app: FastifyInstance,
  { samples, onSlowClient }: AdminOptions,
  isStillAllowed: (request: FastifyRequest) => Promise<boolean>,
): void {
  app.get(
    '/events',
    {
      // The HEAD route that Fastify would add could never finish its response.
      exposeHeadRoute: false,
      schema: {
        operationId: 'streamEvents',
        summary: 'Stream metric samples as server-sent events',
        description:
          'Sends a `point` event every 2 seconds. Its data is a metric sample, as in the overview. Lines that start with a colon keep the connection alive. The stream ends when the token is revoked or expires.',
        response: {
          200: {
            description: 'An endless stream of events.',
            content: { 'text/event-stream': { schema: Type.String() } },
          },
          ...adminErrors(),
        },
      },
    },
    (request, reply) =>
      reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        // With this header, nginx does not buffer the stream.
        .header('x-accel-buffering', 'no')
        .header('connection', 'close')
        .send(
          streamOf(
            samples,
            () => isStillAllowed(request),
            () => onSlowClient(request.id),
          ),
        ),
  )
}

function streamOf(
  samples: MetricFeed,
  isStillAllowed: () => Promise<boolean>,
  onSlowClient: () => void,
): Readable {
  if (samples.listeners >= MAX_LISTENERS) throw tooManyListeners()
  const stream = new Readable({ read: () => {} })
  const unsubscribe = samples.listen({
    send: (event) => {
      void isStillAllowed().then((isAllowed) => {
        if (isAllowed) return
        unsubscribe?.()
        stream.push(null)
      })
      if (stream.readableLength <= MAX_BUFFERED_BYTES) stream.push(event)
      else {
        stream.destroy()
        onSlowClient()
      }
    },
    end: () => stream.push(null),
  })
  if (!unsubscribe) throw tooManyListeners()
  stream.on('close', unsubscribe)
  stream.push(': points follow\n\n')
  return stream
}

const BASE = '/admin/api'

declare module 'fastify' {
  interface FastifyRequest {
    admin: AdminCaller
  }
  interface FastifyContextConfig {
    /** `adminAction` is true if the route changes something or shows secrets, so read-only admin tokens are rejected. */
    adminAction?: true
  }
}

export async function adminRoutes(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const tokens = new AdminTokens(options.token, options.store, options.clock)
  const failures = new MinuteCounter(options.clock, MAX_NETWORKS)
  app.decorateRequest('admin')
  await app.register(
    (scope, _none, done) => {
      scope.addHook('onRoute', (route) => {
        // `public` turns off the check of API keys. The hook below requires an admin token instead.
        route.config = { ...route.config, public: true, cors: false }
        route.schema = { tags: ['Admin'], security: [{ adminToken: [] }], ...route.schema }
      })
      scope.addHook('onRequest', async (request, reply) => {
        reply.header('cache-control', 'no-store')
        const given = tokenOf(request)
        // The token is checked even if the address must wait. Wrong tokens from a shared address must not lock out operators.
        const network = networkOf(addressOf(request))
        const waitMs = failures.waitMs(network, MAX_FAILURES)
        const caller = given === undefined ? null : await tokens.callerOf(given, waitMs === 0)
        if (caller === null) {
          if (waitMs > 0) throw tooManyWrongTokens(Math.ceil(waitMs / 1000))
          // The dashboard sends requests without a token before the operator signs in, so these are not guesses.
          if (given !== undefined) failures.add(network)
          reply.header('www-authenticate', 'Bearer')
          throw tokenRequired()
        }
        if (caller.readOnly && request.route.config.adminAction) throw readOnlyToken()
        request.admin = caller
      })
      scope.addHook('preValidation', convertQuery)
      overviewRoute(scope, options)
      eventRoute(scope, options, async (request) => {
        // Without the database, a revocation cannot be read. The stream then stays open.
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

/** An address may send this many wrong tokens per minute. */
const MAX_FAILURES = 10
