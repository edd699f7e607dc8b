/**
 * Every setting there is: its name, type, limits, default and meaning, in one table. The configuration file's check, its
 * JSON Schema for editors and docs/settings.md are all made from this table.
 */
import Type, { type Static } from 'typebox'
import { MODEL_NAME } from '../job/request.ts'

const strict = { additionalProperties: false } as const

/** A host name or address, in a log and in a URL. */
const host = Type.String({ minLength: 1, description: 'Address to listen on.' })

const places = (description: string) => Type.Integer({ minimum: 1, description })

const target = Type.Object(
  {
    upstream: Type.String({ minLength: 1, description: 'Name of an entry of `upstreams`.' }),
    model: Type.String({ minLength: 1, description: 'What that server calls the model.' }),
  },
  { ...strict, description: 'A place where a model can be had.' },
)

const candidate = Type.Object(
  {
    model: Type.String({ minLength: 1, description: 'A public model name with targets.' }),
    up_to_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Chosen for inputs of at most this many tokens; absent: for any.',
      }),
    ),
  },
  { ...strict, description: 'A model that may be picked, by input size.' },
)

const model = Type.Object(
  {
    targets: Type.Optional(Type.Array(target, { minItems: 1, description: 'Tried in order.' })),
    auto: Type.Optional(
      Type.Array(candidate, {
        minItems: 1,
        description:
          'Instead of targets: other public models, picked by input size among those the tier may use.',
      }),
    ),
  },
  { ...strict, description: 'A public model name: either `targets` or `auto`.' },
)

const upstream = Type.Object(
  {
    base_url: Type.String({ description: 'Where `/chat/completions` is, without that ending.' }),
    api_key_env: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description: 'The environment variable that holds the key; null where the server wants none.',
    }),
    max_concurrency: Type.Integer({ minimum: 1, description: 'Calls under way at once.' }),
    call_timeout_seconds: Type.Number({
      exclusiveMinimum: 0,
      description: 'A call that has not ended by then is given up and counts as a failure worth retrying.',
    }),
    roles: Type.Union([Type.Literal('native'), Type.Literal('developer_as_system')], {
      description:
        'Whether the four roles are sent as they are, or `developer` as `system` for servers without it.',
    }),
    structured_output: Type.Union(
      [Type.Literal('json_schema'), Type.Literal('json_object'), Type.Literal('none')],
      {
        description:
          'How the server can be held to JSON; below `json_schema` the schema goes into an instruction.',
      },
    ),
  },
  { ...strict, description: 'An OpenAI-compatible model server.' },
)

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: `${description} null for no end; an account can have its own (\`parley accounts cap\`).`,
  })

const tier = Type.Object(
  {
    models: Type.Union([Type.Literal('all'), Type.Array(Type.String({ minLength: 1 }))], {
      description: 'The public model names it may use, or "all".',
    }),
    max_batch_jobs: Type.Integer({ minimum: 1, description: 'Jobs in one batch request.' }),
    reads_per_minute: Type.Integer({ minimum: 1, description: 'Reads a minute, per key and node.' }),
    max_input_tokens: Type.Integer({ minimum: 1, description: 'Input tokens of one job.' }),
    weight: Type.Number({ exclusiveMinimum: 0, description: 'Share of the workers when jobs wait.' }),
    max_monthly_jobs: cap('Jobs of one account in a calendar month (UTC); more are refused with 403.'),
    max_monthly_tokens: cap(
      'Input and output tokens of one account in a calendar month (UTC), as model servers count them; when they are used up, new jobs are refused with 403.',
    ),
  },
  {
    ...strict,
    description: 'What the accounts of a tier may do (names: user_free, user_go, user_pro, user_max).',
  },
)

const seconds = (description: string, minimum = 0) => Type.Number({ minimum, description })

export const settingsSchema = Type.Object(
  {
    $schema: Type.Optional(Type.String({ description: 'For editors; ignored.' })),
    host,
    port: Type.Integer({ minimum: 0, maximum: 65535, description: 'Port to listen on; 0 picks a free one.' }),
    database: Type.String({
      description:
        '`sqlite:PATH`, a file of its own for one server; or `postgres://…`, shared by many nodes.',
    }),
    postgres: Type.Object(
      {
        connections: Type.Integer({
          minimum: 3,
          description: 'Connections that a node opens to a Postgres, besides one for notices.',
        }),
        prepared_statements: Type.Boolean({
          description:
            'Whether statements are prepared by name. false only behind a PgBouncer older than 1.21 that pools transactions.',
        }),
        statement_timeout_seconds: Type.Number({
          minimum: 0.1,
          description:
            'A statement that takes longer is ended, and its request answered 503: something blocks it.',
        }),
      },
      strict,
    ),
    trust_proxy: Type.Union([Type.Boolean(), Type.String({ minLength: 1 })], {
      description:
        'Whether X-Forwarded-For is believed: true, false, or the addresses or ranges of the proxies, with commas.',
    }),
    cors: Type.Object(
      { origins: Type.Array(Type.String(), { description: 'Origins whose pages may call; "*" for any.' }) },
      strict,
    ),
    upstreams: Type.Record(Type.String({ pattern: '^[A-Za-z0-9_.-]{1,64}$' }), upstream, strict),
    models: Type.Record(Type.String({ pattern: MODEL_NAME }), model, strict),
    tiers: Type.Object({ user_free: tier, user_go: tier, user_pro: tier, user_max: tier }, strict),
    jobs: Type.Object(
      {
        concurrency: Type.Integer({ minimum: 1, description: 'Jobs that a node runs at once.' }),
        retention_seconds: seconds('How long an ended job stays readable.', 1),
        run_timeout_seconds: Type.Number({
          exclusiveMinimum: 0,
          description: 'Deadline of one run, retries included; then the job fails with `timeout`.',
        }),
        max_attempts: Type.Integer({
          minimum: 1,
          description: 'A job whose node died this often while running it fails.',
        }),
        lease_seconds: seconds(
          'On a Postgres: a node that was silent for so long is dead, and others run its jobs. It renews three times as often. (A SQLite file has one node; its lock is the lease.)',
          1,
        ),
        drain_seconds: seconds('On SIGTERM, how long running jobs may go on before they are given back.'),
      },
      strict,
    ),
    cache: Type.Object(
      {
        enabled: Type.Boolean({
          description: 'Whether an identical later job is answered without a call (message_cache_ttl).',
        }),
      },
      strict,
    ),
    sync: Type.Object(
      {
        max_waiters: Type.Integer({
          minimum: 0,
          description: 'Single creates that may wait at once; more are answered 202 at once.',
        }),
      },
      strict,
    ),
    limits: Type.Object(
      {
        body_bytes: Type.Integer({ minimum: 1024, description: 'Body of a single create.' }),
        batch_body_bytes: Type.Integer({ minimum: 1024, description: 'Body of a batch.' }),
        json_depth: Type.Integer({ minimum: 8, maximum: 512, description: 'Nesting of a body.' }),
        queued_writes: Type.Integer({
          minimum: 1,
          description: 'Writes that may wait for the database; more are refused with 503.',
        }),
        idempotency_seconds: seconds('How long an Idempotency-Key is remembered.', 60),
        header_timeout_seconds: seconds('By when the headers of a request must be there.', 1),
        request_timeout_seconds: seconds('By when the whole request must be there.', 1),
      },
      strict,
    ),
    callbacks: Type.Object(
      {
        retry_seconds: Type.Array(seconds('Pause in seconds.'), {
          minItems: 1,
          description:
            'The pause before each attempt, with 20% jitter either way; its length is the number of attempts.',
        }),
        timeout_seconds: Type.Number({ exclusiveMinimum: 0, description: 'Deadline of one attempt.' }),
        concurrency: places('First attempts under way at once on a node.'),
        retry_concurrency: places('Later attempts under way at once on a node.'),
        concurrency_per_origin: places(
          'Attempts under way at once from a node to one receiver (scheme, host and port).',
        ),
        in_flight_bytes: Type.Integer({
          minimum: 1_048_576,
          description:
            'Bytes of callback bodies that a node holds in memory at once. The rest waits in the database; a larger body is sent alone. Bodies up to 16 KiB do not count.',
        }),
        allow_networks: Type.Array(Type.String(), {
          description: 'Private ranges (CIDR) that callbacks may go to nevertheless.',
        }),
        https_only: Type.Boolean({ description: 'Whether http callback addresses are refused.' }),
      },
      strict,
    ),
  },
  strict,
)

export type Settings = Static<typeof settingsSchema>
export type UpstreamSettings = Static<typeof upstream>
export type ModelSettings = Static<typeof model>
export type TierSettings = Static<typeof tier>

/** The process's environment, handed in so that only one place reads it. */
export type Environment = Readonly<Record<string, string | undefined>>

/** What an entry of `upstreams` takes for the keys it leaves out. */
export const UPSTREAM_DEFAULTS: UpstreamSettings = {
  base_url: 'https://api.openai.com/v1',
  api_key_env: 'OPENAI_API_KEY',
  max_concurrency: 256,
  call_timeout_seconds: 300,
  roles: 'native',
  structured_output: 'json_schema',
}

export const DEFAULTS: Settings = {
  host: '127.0.0.1',
  port: 8080,
  database: 'sqlite:./data/parley.db',
  postgres: { connections: 10, prepared_statements: true, statement_timeout_seconds: 15 },
  trust_proxy: false,
  cors: { origins: [] },
  upstreams: { openai: UPSTREAM_DEFAULTS },
  models: {
    'gpt-5': { targets: [{ upstream: 'openai', model: 'gpt-5' }] },
    'gpt-5.2': { targets: [{ upstream: 'openai', model: 'gpt-5.2' }] },
    'gpt-5-mini': { targets: [{ upstream: 'openai', model: 'gpt-5-mini' }] },
    'gpt-auto': { auto: [{ model: 'gpt-5-mini', up_to_tokens: 2000 }, { model: 'gpt-5' }] },
  },
  tiers: {
    user_free: {
      models: ['gpt-auto', 'gpt-5-mini'],
      max_batch_jobs: 2,
      reads_per_minute: 300,
      max_input_tokens: 16_000,
      weight: 1,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
    },
    user_go: {
      models: 'all',
      max_batch_jobs: 10,
      reads_per_minute: 600,
      max_input_tokens: 64_000,
      weight: 2,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
    },
    user_pro: {
      models: 'all',
      max_batch_jobs: 20,
      reads_per_minute: 1200,
      max_input_tokens: 128_000,
      weight: 4,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
    },
    user_max: {
      models: 'all',
      max_batch_jobs: 30,
      reads_per_minute: 3000,
      max_input_tokens: 256_000,
      weight: 8,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
    },
  },
  jobs: {
    concurrency: 256,
    retention_seconds: 604_800,
    run_timeout_seconds: 600,
    max_attempts: 3,
    lease_seconds: 30,
    drain_seconds: 20,
  },
  cache: { enabled: true },
  sync: { max_waiters: 20_000 },
  limits: {
    body_bytes: 2_097_152,
    batch_body_bytes: 10_485_760,
    json_depth: 64,
    queued_writes: 20_000,
    idempotency_seconds: 86_400,
    header_timeout_seconds: 10,
    request_timeout_seconds: 30,
  },
  callbacks: {
    retry_seconds: [0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400],
    timeout_seconds: 15,
    concurrency: 512,
    retry_concurrency: 128,
    concurrency_per_origin: 32,
    in_flight_bytes: 67_108_864,
    allow_networks: [],
    https_only: false,
  },
}
