/** GET /healthz, /readyz and /metrics: whether the process is alive, whether it can accept jobs, and its metrics. */
import type { FastifyInstance } from 'fastify'
import { Type } from '../typed-schema.ts'
import { sendData, sendError } from './envelope.ts'
import { unavailable } from './load-shedding/unavailable.ts'
import { errors, success } from './openapi/schemas.ts'

export interface HealthRoutes {
  /** Rejects if a job could not be accepted now. */
  readonly ready: () => Promise<void>
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>
}

export function healthRoutes(app: FastifyInstance, { ready, metrics }: HealthRoutes): void {
  const config = { public: true }
  const ok = (description: string) => success(description, Type.Object({ status: Type.String() }))
  const tags = ['Operations']
  app.get(
    '/healthz',
    {
      config,
      schema: {
        operationId: 'getHealth',
        summary: 'Whether the process is alive',
        description: 'Does not query the database.',
        tags,
        response: { 200: ok('The process is alive.') },
      },
    },
    (_request, reply) => sendData(reply, 200, 'The process is alive.', '{"status":"alive"}'),
  )
  app.get(
    '/readyz',
    {
      config,
      schema: {
        operationId: 'getReadiness',
        summary: 'Whether jobs can be accepted',
        description:
          'Makes a small durable write. Responds with 503 while the server is shutting down or the database rejects writes.',
        tags,
        response: { 200: ok('Jobs can be accepted.'), ...errors(503) },
      },
    },
    async (_request, reply) => {
      try {
        await ready()
      } catch {
        return sendError(reply, unavailable())
      }
      return sendData(reply, 200, 'Jobs can be accepted.', '{"status":"ready"}')
    },
  )
  app.get(
    '/metrics',
    {
      config,
      schema: {
        operationId: 'getMetrics',
        summary: 'Metrics in the Prometheus text format',
        description: 'The names begin with `parley_`.',
        tags,
        response: { 200: { description: 'Metrics.', content: { 'text/plain': { schema: Type.String() } } } },
      },
    },
    async (_request, reply) => {
      const { type, text } = await metrics()
      return reply.header('content-type', type).send(text)
    },
  )
}
