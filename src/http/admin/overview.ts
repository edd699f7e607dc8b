/** The route that returns the current state of the node and its database, with the metric samples of the last minutes. */
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import { sendData } from '../envelope.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { adminErrors, count, orNull, unixTime, unixTimeOrNull, upstreamTrouble } from './shapes.ts'

const percentiles = Type.Object({
  p50: orNull(Type.Number()),
  p95: orNull(Type.Number()),
  p99: orNull(Type.Number()),
})

export const metricSample = Type.Object({
  at: unixTime('When the sample was taken'),
  seconds: Type.Number({ description: 'The interval that the counts cover.' }),
  jobs: Type.Record(Type.String(), count, { description: 'Jobs that finished on this node, by outcome.' }),
  waiting: orNull(count),
  assigned: orNull(count),
  oldest_age_seconds: orNull(Type.Number()),
  running: count,
  wait_ms: percentiles,
  run_ms: percentiles,
  tokens: Type.Record(Type.String(), Type.Object({ input: count, output: count })),
  cache_hits: count,
  calls: Type.Record(Type.String(), Type.Object({ ok: count, trouble: count })),
  callbacks: Type.Object({ delivered: count, failed_attempts: count, failed: count }),
  callbacks_owed: orNull(count),
})

const overview = Type.Object({
  now: unixTime('The current time of this node'),
  version: Type.String(),
  node: Type.String(),
  role: Type.String(),
  simulated: Type.Boolean(),
  started_at: unixTime('When this node started'),
  threads: Type.Array(
    Type.Object({
      connections: count,
      busy: Type.Number({
        description: 'The part of the time in which its event loop was busy lately, from 0 to 1.',
      }),
    }),
    { description: 'Deprecated. Always one entry: the main thread of this node, which serves HTTP.' },
  ),
  jobs: Type.Object({
    waiting: count,
    assigned: count,
    oldest_age_seconds: Type.Number(),
    running: count,
    waiters: count,
  }),
  callbacks: Type.Object({
    owed: count,
    failed: count,
    late_seconds: Type.Number(),
    under_way: Type.Object({ first: count, retry: count }),
  }),
  held_back: Type.Array(
    Type.Object({
      account: Type.String(),
      reason: Type.Enum(['slots', 'memory'], {
        description:
          '`slots`: the account uses its full share of the slots. `memory`: its next large job waits for memory.',
      }),
    }),
    {
      description:
        'Accounts whose queued jobs are held back on this node while jobs of other accounts start.',
    },
  ),
  upstreams: Type.Array(
    Type.Object({
      name: Type.String(),
      running: count,
      waiting: count,
      concurrency_limit: Type.Integer({ description: 'The current limit of concurrent calls.' }),
      max_concurrency: Type.Integer({ description: 'The maximum of this limit.' }),
      skipped_until: unixTimeOrNull(
        'When its first target is tried again; null unless all its targets are skipped',
      ),
      rejected_roles: Type.Array(
        Type.Object({
          model: Type.String(),
          rejects: Type.Enum(['system', 'irregular'], {
            description:
              '`system`: any system message. `irregular`: system messages after the first message, and roles that do not alternate.',
          }),
          until: unixTime('How long this is assumed'),
        }),
        {
          description:
            'What the chat templates of its models have been seen to reject (with `roles` set to `auto`). Such conversations are sent as `no_system`.',
        },
      ),
      unavailable: Type.Array(Type.Object({ model: Type.String(), ...upstreamTrouble }), {
        description: 'Models that jobs wait for, because calls of this node to them fail.',
      }),
    }),
  ),
  points: Type.Array(metricSample, {
    description: 'Metric samples of the last 15 minutes, one every 2 seconds, oldest first.',
  }),
})

export function overviewRoute(app: FastifyInstance, { overview: read, samples }: AdminContext): void {
  app.get(
    '/overview',
    {
      schema: {
        operationId: 'getOverview',
        summary: 'Show the current state of the service',
        description:
          'Waiting jobs, assigned jobs and callbacks are counted in the whole database. Everything else describes this node.',
        response: {
          200: success('The current state and recent metric samples.', overview),
          ...adminErrors(),
        },
      },
    },
    async (_request, reply) => {
      const now = JSON.stringify(await read())
      const data = `${now.slice(0, -1)},"points":[${samples.kept.join(',')}]}`
      return sendData(reply, 200, 'The current state.', data)
    },
  )
}
