/** Serves /healthz, /readyz, /metrics and, for autoscalers, /metrics/queue. `ready` in app/service.ts decides readiness. */
import type { FastifyInstance } from 'fastify'
import type { Clock } from '../clock.ts'
import type { RouteSignal } from '../queue/route-signals.ts'
import { type Static, Type } from '../typed-schema.ts'
import { sendData, sendError } from './envelope.ts'
import { unavailable } from './load-shedding/unavailable.ts'
import { errors, success } from './openapi/schemas.ts'

export interface HealthRoutes {
  /** Rejects if the server cannot accept a job now. */
  readonly ready: () => Promise<void>
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>
  /** Rejects if the database does not respond. */
  readonly routes: () => Promise<readonly RouteSignal[]>
  readonly clock: Pick<Clock, 'nowMs'>
}

const counts = {
  queued: Type.Integer({
    description: 'Queued jobs, on all nodes; counted up to 10,000 for each route and priority.',
  }),
  waiting: Type.Integer({
    description: 'Jobs of the node that responds that wait for a slot or a rate of the model server.',
  }),
  oldest_age_seconds: Type.Number({ description: 'The age of the oldest of them; 0 if there is none.' }),
}
const queueState = Type.Object({
  ...counts,
  upstreams: Type.Record(Type.Object(counts), {
    description: 'By upstream: the jobs of the routes whose first target is there.',
  }),
  routes: Type.Array(
    Type.Object({
      targets: Type.Array(Type.String(), { description: 'In the order to try them.' }),
      ...counts,
    }),
  ),
})

function queueStateOf(routes: readonly RouteSignal[], nowMs: number): Static<typeof queueState> {
  const sumOf = (some: readonly RouteSignal[]) => {
    const ages = some.flatMap(({ oldestMs }) => (oldestMs === null ? [] : (nowMs - oldestMs) / 1000))
    return {
      queued: some.reduce((sum, { queued }) => sum + queued, 0),
      waiting: some.reduce((sum, { waiting }) => sum + waiting, 0),
      oldest_age_seconds: Math.max(0, ...ages),
    }
  }
  const upstreamOf = ({ targets: [first = ''] }: RouteSignal) => first.split('/', 1)[0] ?? ''
  const upstreams = Map.groupBy(routes, upstreamOf)
  return {
    ...sumOf(routes),
    upstreams: Object.fromEntries([...upstreams].map(([name, some]) => [name, sumOf(some)])),
    routes: routes.map((route) => ({ targets: [...route.targets], ...sumOf([route]) })),
  }
}

export function healthRoutes(app: FastifyInstance, { ready, metrics, routes, clock }: HealthRoutes): void {
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
  app.get(
    '/metrics/queue',
    {
      config,
      schema: {
        operationId: 'getQueue',
        summary: 'How many jobs wait, by model server',
        description: 'For autoscalers of model servers and of nodes. The metrics have the same figures.',
        tags,
        response: { 200: success('The jobs that wait.', queueState), ...errors(503) },
      },
    },
    async (_request, reply) => {
      const found = await routes().catch(() => null)
      if (found === null) return sendError(reply, unavailable())
      const json = JSON.stringify(queueStateOf(found, clock.nowMs()))
      return sendData(reply, 200, 'The jobs that wait.', json)
    },
  )
}
