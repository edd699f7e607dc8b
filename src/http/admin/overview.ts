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
  at: unixTime('When it was taken'),
  seconds: Type.Number({ description: 'The time that the counts cover.' }),
  jobs: Type.Record(Type.String(), count, { description: 'Jobs that ended on this node, by outcome.' }),
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
  now: unixTime('The time of this node'),
  version: Type.String(),
  node: Type.String(),
  role: Type.String(),
  simulated: Type.Boolean(),
  started_at: unixTime('When this node started'),
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
          '`slots`: it holds its share of the slots; `memory`: its next large job waits for memory for running jobs.',
      }),
    }),
    { description: 'Accounts whose queued jobs wait on this node while those of other accounts begin.' },
  ),
  upstreams: Type.Array(
    Type.Object({
      name: Type.String(),
      running: count,
      waiting: count,
      concurrency_limit: Type.Integer({ description: 'How many calls may be in progress now.' }),
      max_concurrency: Type.Integer({ description: 'The ceiling of this limit.' }),
      skipped_until: unixTimeOrNull(
        'When its first target is tried again; null unless all of its targets are skipped',
      ),
      rejected_roles: Type.Array(
        Type.Object({
          model: Type.String(),
          rejects: Type.Enum(['system', 'irregular'], {
            description:
              '`system`: any system message; `irregular`: later system messages, and roles that do not alternate.',
          }),
          until: unixTime('Until when this is assumed'),
        }),
        {
          description:
            'What the chat templates of its models reject, as calls have shown (`roles` of `auto`): such conversations are sent as `no_system`.',
        },
      ),
      unavailable: Type.Array(Type.Object({ model: Type.String(), ...upstreamTrouble }), {
        description: 'Models that jobs wait for, as no call of this node to them succeeds.',
      }),
    }),
  ),
  points: Type.Array(metricSample, {
    description: 'Metric samples of the last 15 minutes, oldest first, one every 2 seconds.',
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
          'Waiting and assigned jobs, and callbacks, are counted in the whole database; everything else describes this node.',
        response: { 200: success('The current state and the last minutes.', overview), ...adminErrors() },
      },
    },
    async (_request, reply) => {
      const now = JSON.stringify(await read())
      const data = `${now.slice(0, -1)},"points":[${samples.kept.join(',')}]}`
      return sendData(reply, 200, 'The current state.', data)
    },
  )
}
