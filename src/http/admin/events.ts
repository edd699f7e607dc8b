/** The route that streams metric samples as server-sent events. Clients that do not read are disconnected. */
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import type { MetricFeed } from '../../admin/metric-feed.ts'
import { tooManyListeners } from '../load-shedding/unavailable.ts'
import type { AdminContext } from './admin-context.ts'
import { adminErrors } from './shapes.ts'

/** Unread bytes that are buffered per client, in addition to the kernel's buffers: a few minutes of samples. */
export const MAX_BUFFERED_BYTES = 65_536

export function eventRoute(app: FastifyInstance, { samples, onSlowClient }: AdminContext): void {
  app.get(
    '/events',
    {
      // A HEAD request would wait forever, because the response never ends.
      exposeHeadRoute: false,
      schema: {
        operationId: 'streamEvents',
        summary: 'Stream metric samples as server-sent events',
        description:
          'Sends a `point` event every 2 seconds. Its data is a metric sample, as in the overview. Lines that start with a colon keep the connection alive.',
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
        // Proxies buffer responses. This header turns buffering off in nginx.
        .header('x-accel-buffering', 'no')
        .header('connection', 'close')
        .send(streamOf(samples, () => onSlowClient(request.id))),
  )
}

function streamOf(samples: MetricFeed, onSlowClient: () => void): Readable {
  const stream = new Readable({ read: () => {} })
  const unsubscribe = samples.listen({
    send: (event) => {
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
