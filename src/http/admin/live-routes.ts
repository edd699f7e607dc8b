/**
 * Routes for the current state of this node and its database, the settings, and a stream of metric samples as server-sent
 * events.
 */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { effectiveSettings, type MetricFeed, overview } from '../../admin/overview.ts'
import { Type } from '../../typed-schema.ts'
import { tooManyListeners } from '../load-shedding/unavailable.ts'
import { type AdminOptions, adminErrors } from './admin-context.ts'
import { readRoute } from './read-routes.ts'

export function overviewRoute(app: FastifyInstance, { overview: read, samples }: AdminOptions): void {
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

export function settingsRoute(app: FastifyInstance, { settingsJson }: AdminOptions): void {
  readRoute(app, '/settings', {
    operationId: 'getSettings',
    summary: 'Show the effective settings, without secrets',
    description: 'Passwords and keys in URLs are masked, and the keys of upstreams are omitted.',
    success: 'The settings.',
    data: effectiveSettings,
    read: async () => ['The effective settings.', settingsJson],
  })
}

/** How many event streams a node has open at most. */
export const MAX_LISTENERS = 500
/**
 * How many unread bytes are buffered for a client, in addition to the kernel's buffers: a few minutes of samples. A client with
 * more is disconnected.
 */
const MAX_BUFFERED_BYTES = 65_536

/** @param isStillAllowed resolves with false once the request's token is revoked or has expired; never rejects */
export function eventRoute(
  app: FastifyInstance,
  { samples, onSlowClient }: AdminOptions,
  isStillAllowed: (request: FastifyRequest) => Promise<boolean>,
): void {
  app.get(
    '/events',
    {
      // Fastify would add a HEAD route, whose response would never end.
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
        // Tells nginx not to buffer the response.
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
