/** Points as server-sent events. Each listener is given the same bytes; one that does not read is let go. */
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import type { MetricFeed } from '../../admin/metric-feed.ts'
import { tooManyListeners } from '../errors.ts'
import type { AdminParts } from './admin-parts.ts'
import { adminErrors } from './shapes.ts'

/** Bytes that a listener may be behind, beside what the machine keeps for it: some minutes of points. */
export const MOST_BEHIND = 65_536

export function eventRoute(app: FastifyInstance, { points, onDropped }: AdminParts): void {
  app.get(
    '/events',
    {
      // A HEAD would wait for an answer without an end.
      exposeHeadRoute: false,
      schema: {
        summary: 'Points as they are made, as server-sent events',
        description:
          'An event `point` every 2 seconds, its data a point as in the overview. Lines that begin with a colon keep the connection alive.',
        response: {
          200: {
            description: 'Events without an end.',
            content: { 'text/event-stream': { schema: Type.String() } },
          },
          ...adminErrors(),
        },
      },
    },
    (request, reply) =>
      reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        // Proxies in front hold back answers to make them larger; nginx does not when told so.
        .header('x-accel-buffering', 'no')
        .header('connection', 'close')
        .send(streamOf(points, () => onDropped(request.id))),
  )
}

function streamOf(points: MetricFeed, onDropped: () => void): Readable {
  const stream = new Readable({ read: () => {} })
  const leave = points.listen({
    send: (event) => {
      if (stream.readableLength <= MOST_BEHIND) stream.push(event)
      else {
        stream.destroy()
        onDropped()
      }
    },
    end: () => stream.push(null),
  })
  if (!leave) throw tooManyListeners()
  stream.on('close', leave)
  stream.push(': points follow\n\n')
  return stream
}
