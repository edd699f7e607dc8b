/** Defines what operators see of a node, its metric samples and its settings. Times are Unix seconds. */
import { type Static, Type } from '../typed-schema.ts'
import { anyObject, count, orNull, unixTime, unixTimeOrNull } from './fields.ts'

export const upstreamTrouble = {
  since: unixTime('Since when'),
  reason: Type.Enum(['unreachable', 'overloaded', 'broken', 'misconfigured', 'failing'], {
    description:
      '`unreachable`: no connection. `overloaded`: 429 or 503. `broken`: dropped connections, 408, 409, 502 or 504. `misconfigured`: a redirect, 401 to 405, or no quota left. `failing`: 500 or call timeouts.',
  }),
  status: orNull(Type.Integer({ description: 'The HTTP status, if there was a response.' })),
  message: Type.String({
    description: 'The error message of the model server, or why the connection failed.',
  }),
}
const troubleSchema = Type.Object(upstreamTrouble)
export type UpstreamTrouble = Static<typeof troubleSchema>

/** Percentiles are accurate to 1%, and null if nothing was measured. */
const percentiles = Type.Object({
  p50: orNull(Type.Number()),
  p95: orNull(Type.Number()),
  p99: orNull(Type.Number()),
})
export type Percentiles = Static<typeof percentiles>

const metricSample = Type.Object({
  at: unixTime('When the sample was taken'),
  seconds: Type.Number({ description: 'The interval that the counts cover.' }),
  jobs: Type.Record(count, { description: 'Jobs that finished on this node, by outcome.' }),
  waiting: orNull(count),
  assigned: orNull(count),
  oldest_age_seconds: orNull(Type.Number()),
  running: count,
  wait_ms: percentiles,
  run_ms: percentiles,
  tokens: Type.Record(Type.Object({ input: count, output: count })),
  cache_hits: count,
  calls: Type.Record(Type.Object({ ok: count, trouble: count })),
  callbacks: Type.Object({ delivered: count, failed_attempts: count, failed: count }),
  callbacks_owed: orNull(count),
})
/** Counts what happened on a node during a few seconds, for the charts of the dashboard. */
export type MetricSample = Static<typeof metricSample>

export const overview = Type.Object({
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
        description: 'How busy its event loop was lately, from 0 to 1.',
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
    suspects: Type.Object(
      { queued: count, running: count },
      {
        description:
          'Jobs that were running when a node crashed. They run in small groups, so that Parley finds the one that crashes the process.',
      },
    ),
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
      description: 'Accounts whose jobs wait on this node because they use all that one account can have.',
    },
  ),
  upstreams: Type.Array(
    Type.Object({
      name: Type.String(),
      running: count,
      waiting: Type.Integer({ minimum: 0, description: 'Jobs of this node that wait for a slot or a rate.' }),
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
            'What the chat templates of its models have rejected (with `roles` set to `auto`). Such conversations are sent as `no_system`.',
        },
      ),
      unavailable: Type.Array(Type.Object({ model: Type.String(), ...upstreamTrouble }), {
        description: 'Models that jobs wait for because calls from this node fail.',
      }),
      limited_accounts: Type.Integer({
        description:
          'How many accounts wait for one of its models, or can make only a few concurrent calls, because only their calls fail.',
      }),
    }),
  ),
  points: Type.Array(metricSample, {
    description: 'Metric samples of the last 15 minutes, one every 2 seconds, oldest first.',
  }),
})
export type Overview = Static<typeof overview>
export type CurrentState = Omit<Overview, 'points'>
export type HeldBack = Overview['held_back'][number]
export type Upstream = Overview['upstreams'][number]

export const effectiveSettings = Type.Object({
  settings: anyObject('The settings in the shape of the configuration file, including defaults.'),
  file: orNull(Type.String({ description: 'The configuration file that was read.' })),
  database: Type.String(),
})
export type EffectiveSettings = Static<typeof effectiveSettings>

export interface MetricFeed {
  /** The texts are JSON, and the oldest sample comes first. */
  readonly kept: readonly string[]
  readonly listeners: number
  /** Returns a function that unsubscribes; null if the server is shutting down. */
  listen(listener: MetricListener): (() => void) | null
}

export interface MetricListener {
  /** Gets each sample as a server-sent event. All listeners share the buffer, so it must not be changed. */
  send(event: Uint8Array): void
  /** Ends the stream when the server shuts down. */
  end(): void
}
