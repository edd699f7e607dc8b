/**
 * Contains the table of all settings: names, types, limits, defaults and meanings. The configuration file is validated against
 * it, and the JSON Schema for editors and docs/settings.md are generated from it.
 */

import { PRIORITIES } from '../job/priority.ts'
import { MODEL_NAME } from '../job/request.ts'
import { type Static, Type } from '../typed-schema.ts'
import { DEFAULT_DATABASE, MAX_THREADS } from './allowed-values.ts'

const strict = { additionalProperties: false } as const

const host = Type.String({
  minLength: 1,
  description: 'Address to listen on: for example `::` for all addresses, or `unix:/path` for a Unix socket.',
})

const slots = (description: string) => Type.Integer({ minimum: 1, description })

const HEADER_NAME = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

const amount = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, description })

const price = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        input: amount(
          'Price of a million input tokens in `currency`, with up to nine decimals. An entry of `targets` can have its own `price`. With `auto`, the chosen model sets the price.',
        ),
        cached_input: Type.Optional(amount('Price of a million cached input tokens. Default: as `input`.')),
        output: amount('Price of a million output tokens.'),
      },
      { ...strict, description },
    ),
  )

const perMinute = (what: string) => `Maximum ${what} per minute, shared by all nodes.`

const targetRate = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }))
const upstreamRate = (what: string, counted = '') =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: `${perMinute(what)}${counted} A target can have its own.`,
  })

const target = Type.Object(
  {
    upstream: Type.String({ minLength: 1, description: 'Name of an entry of `upstreams`.' }),
    model: Type.String({ minLength: 1, description: 'The name of the model on that server.' }),
    price: price('What calls to this target cost, instead of the `price` of the model.'),
    requests_per_minute: targetRate(
      `${perMinute('calls of this model on this upstream')} If several targets name it, the lowest limit applies.`,
    ),
    tokens_per_minute: targetRate(perMinute('tokens of this model on this upstream')),
  },
  { ...strict, description: 'A model on an upstream.' },
)

const candidate = Type.Object(
  {
    model: Type.String({ minLength: 1, description: 'A public model name with targets.' }),
    up_to_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'The largest input, in tokens, for which this model is chosen. Absent: any input.',
      }),
    ),
  },
  { ...strict, description: 'A model to choose from, by input size.' },
)

const model = Type.Object(
  {
    targets: Type.Optional(Type.Array(target, { minItems: 1, description: 'The models to try, in order.' })),
    auto: Type.Optional(
      Type.Array(candidate, {
        minItems: 1,
        description:
          'Public models, instead of `targets`. Parley chooses one that the tier allows, by the size of the input.',
      }),
    ),
    v1_cache: Type.Optional(
      Type.Boolean({
        description:
          'Whether all `/v1` requests with this model use the response cache. By default, only those with the header `x-parley-cache: true` do.',
      }),
    ),
    price: price('What calls cost.'),
    max_output_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'How many output tokens a job reserves under `max_monthly_cost` if neither `options.max_tokens` nor its tier limits them. Default: 4096. Not sent to the server.',
      }),
    ),
  },
  { ...strict, description: 'A public model name: either `targets` or `auto`.' },
)

/** A value that may be secret is a text, or names the environment variable that contains the text. */
const secretValue = (description: string) =>
  Type.Union(
    [
      Type.String(),
      Type.Object({ env: Type.String({ minLength: 1, description: 'The environment variable.' }) }, strict),
    ],
    {
      description: `${description} A string, or \`{ "env": "VARIABLE" }\`.`,
    },
  )

const upstream = Type.Object(
  {
    base_url: Type.String({ description: 'The base URL of the API, without `/chat/completions`.' }),
    api_key_env: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description:
        'The environment variable that holds the API key; null if the server does not require one.',
    }),
    max_concurrency: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description:
        'Maximum concurrent calls. Parley starts with this limit, halves it after 429, 503 and timeouts, and raises it again while calls succeed. null: at most `jobs.concurrency`, starting with 8. For api.openai.com, the number is always the maximum.',
    }),
    requests_per_minute: upstreamRate('calls'),
    tokens_per_minute: upstreamRate('input and output tokens', ' Running calls count with an estimate.'),
    call_timeout_seconds: Type.Number({
      exclusiveMinimum: 0,
      description: 'A call that takes longer is aborted and retried.',
    }),
    roles: Type.Union(
      [
        Type.Literal('native'),
        Type.Literal('developer_as_system'),
        Type.Literal('merged_system'),
        Type.Literal('no_system'),
        Type.Literal('auto'),
        Type.Null(),
      ],
      {
        description:
          'How system and developer messages are sent: see "Model servers" in the documentation. null: `native` for api.openai.com, `developer_as_system` for Azure OpenAI, otherwise `auto`.',
      },
    ),
    structured_output: Type.Union(
      [Type.Literal('json_schema'), Type.Literal('json_object'), Type.Literal('none')],
      {
        description:
          'What the server supports for JSON output. Without `json_schema`, the schema is sent as an instruction.',
      },
    ),
    headers: Type.Record(secretValue('A header to send with each request, such as `api-key`.'), {
      ...strict,
      pattern: HEADER_NAME,
    }),
    query: Type.Record(secretValue('A query parameter to send with each request, such as `api-version`.'), {
      ...strict,
      pattern: '^.+$',
    }),
    body: Type.Record(
      Type.Unknown({
        description:
          'A field to add to the body of each completion request, such as `max_tokens` or `temperature`.',
      }),
      { ...strict, pattern: '^.+$' },
    ),
    wake_url: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description:
        'For model servers that scale to zero: while jobs wait because the server is unavailable, each node that runs jobs sends a POST with `{"upstream":"NAME"}` to this URL every 30 seconds. Requires `jobs.patience_seconds` above 0.',
    }),
    ca_file: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description: 'A PEM file of certificates to trust in addition to those of the system.',
    }),
  },
  { ...strict, description: 'An OpenAI-compatible model server.' },
)

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description,
  })

const tier = Type.Object(
  {
    models: Type.Union([Type.Literal('all'), Type.Array(Type.String({ minLength: 1 }))], {
      description: 'The public model names that the tier may use, or "all".',
    }),
    max_batch_jobs: Type.Integer({ minimum: 1, description: 'Maximum jobs in one batch request.' }),
    reads_per_minute: Type.Integer({
      minimum: 1,
      description: 'Maximum reads of a key per minute, on each node.',
    }),
    creates_per_minute: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description:
        'Maximum jobs that an account can create per minute on each node; each job of a batch counts.',
    }),
    max_input_tokens: Type.Integer({ minimum: 1, description: 'Maximum input tokens of one job.' }),
    max_output_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description: 'Maximum tokens of one answer, and the default of `options.max_tokens`.',
    }),
    priorities: Type.Array(Type.Union(PRIORITIES.map((one) => Type.Literal(one))), {
      description:
        'The values of `priority` that the tier may use. Others are rejected with 403. A job without `priority` is always normal.',
    }),
    weight: Type.Number({
      exclusiveMinimum: 0,
      description: 'Relative share of the slots while jobs are queued.',
    }),
    max_monthly_jobs: cap('Maximum jobs of one account in a calendar month (UTC).'),
    max_monthly_tokens: cap(
      'Maximum input and output tokens of one account in a calendar month (UTC), as the model servers count them.',
    ),
    max_monthly_cost: Type.Union([Type.Number({ minimum: 0, maximum: 1_000_000_000 }), Type.Null()], {
      description:
        'Maximum cost of one account in a calendar month (UTC), in `currency`. An unfinished job counts with its highest possible cost.',
    }),
    over_cap: Type.Union([Type.Literal('reject'), Type.Literal('wait')], {
      description:
        'What happens to jobs beyond `max_monthly_cost`. `reject`: they get 403. `wait`: they stay queued until the cap has room.',
    }),
    max_open_jobs: cap('Maximum jobs of one account that are queued or running at the same time.'),
    max_stored_bytes: cap(
      'Maximum bytes that one account stores until they expire or are deleted: conversations, schemas, callbacks, answers and files. Answers of accepted jobs may exceed it.',
    ),
    max_files: Type.Integer({
      minimum: 0,
      description:
        'Maximum files of one account, including results of batches. Beyond it, batches still write their results.',
    }),
    max_file_bytes: Type.Integer({
      minimum: 1,
      description: 'Maximum bytes of one uploaded file.',
    }),
    max_batch_lines: Type.Integer({
      minimum: 1,
      description: 'Maximum lines of a batch at `/v1/batches`.',
    }),
  },
  {
    ...strict,
    description:
      'The limits for the accounts of a tier. The tiers are user_free, user_go, user_pro and user_max, and those that you add.',
  },
)

const TIER_NAME = '^(?!user_(?:free|go|pro|max)$)[a-z][a-z0-9_-]{0,31}$'

const ownTier = Type.Object(
  {
    based_on: Type.Union(
      (['user_free', 'user_go', 'user_pro', 'user_max'] as const).map((name) => Type.Literal(name)),
      {
        description:
          'The built-in tier from which this one takes the values that it omits. Only for your own tiers, which require it.',
      },
    ),
    ...tier.properties,
  },
  { ...strict, description: 'A tier of your own.' },
)

const seconds = (description: string, minimum = 0) => Type.Number({ minimum, description })

export const settingsSchema = Type.Object(
  {
    $schema: Type.Optional(Type.String({ description: 'The JSON Schema of this file, for editors.' })),
    host,
    port: Type.Integer({
      minimum: 0,
      maximum: 65535,
      description: 'Port to listen on; 0 picks a free one.',
    }),
    threads: Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 1, maximum: MAX_THREADS })], {
      description: 'Deprecated, without effect.',
    }),
    database: Type.String({
      description: '`sqlite:PATH` for one server, or `postgres://…` for any number of nodes.',
    }),
    postgres: Type.Object(
      {
        connections: Type.Integer({
          minimum: 3,
          description:
            'Connections of each node to Postgres. It opens two more, for notifications and its lease.',
        }),
        prepared_statements: Type.Boolean({
          description:
            'Whether to use named prepared statements. Set false only with PgBouncer before 1.21 in transaction pooling mode.',
        }),
        statement_timeout_seconds: Type.Number({
          minimum: 0.1,
          description: 'A statement that takes longer is cancelled, and the request that needs it gets 503.',
        }),
      },
      strict,
    ),
    trust_proxy: Type.Union([Type.Boolean(), Type.String({ minLength: 1 })], {
      description:
        'Whether to trust X-Forwarded-For: true, false, or the addresses or ranges of your proxies, separated by commas.',
    }),
    cors: Type.Object(
      {
        origins: Type.Array(Type.String(), {
          description: 'Origins whose pages may call the API, or "*" for any origin.',
        }),
      },
      strict,
    ),
    simulator: Type.Union([Type.Boolean(), Type.Literal('auto')], {
      description:
        'Whether the built-in simulator answers every job. `auto`: only without a model server, on SQLite, on a loopback address and without `trust_proxy`.',
    }),
    upstreams: Type.Record(upstream, { ...strict, pattern: '^[A-Za-z0-9_.-]{1,64}$' }),
    models: Type.Record(model, { ...strict, pattern: MODEL_NAME }),
    currency: Type.Optional(
      Type.String({
        minLength: 3,
        description:
          'The currency of all prices and of `max_monthly_cost`, such as EUR. Required if a model has a price.',
      }),
    ),
    tiers: Type.Object(
      { user_free: tier, user_go: tier, user_pro: tier, user_max: tier },
      { ...strict, patternProperties: { [TIER_NAME]: ownTier } },
    ),
    jobs: Type.Object(
      {
        concurrency: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
          description:
            'Maximum jobs that a node runs at the same time, including those that wait for a slot of a model server. null: a quarter of `limits.memory_bytes` divided by 24 KiB, but at least 16 and at most 10,000.',
        }),
        retention_seconds: seconds('How long a finished job can be read.', 1),
        run_timeout_seconds: Type.Number({
          exclusiveMinimum: 0,
          description:
            'Time limit for one execution, including retries, but not the time in which the job waits for a model server. (With `jobs.patience_seconds` 0, waiting for a slot counts.)',
        }),
        patience_seconds: seconds(
          'How long a job waits in total for model servers that are unreachable, overloaded, failing or misconfigured. With 0, it fails after three tries within a few seconds.',
        ),
        max_attempts: Type.Integer({
          minimum: 1,
          description:
            'A job fails if it was running in this many crashes of nodes, and alone in the last one.',
        }),
        lease_seconds: seconds(
          'On Postgres: a node that has not renewed its lease for this long counts as dead, and other nodes run its jobs.',
          1,
        ),
        hang_seconds: seconds(
          'On Postgres: a node whose event loop is blocked for this long exits, and other nodes run its jobs.',
          5,
        ),
        drain_seconds: seconds(
          'How long running jobs may continue after SIGTERM before they go back to the queue.',
        ),
      },
      strict,
    ),
    shutdown: Type.Object(
      {
        listen_seconds: seconds(
          'How long the server still accepts requests after SIGTERM, while `/readyz` responds with 503. Then `jobs.drain_seconds` begins. Set 5 if a load balancer checks `/readyz`.',
        ),
      },
      strict,
    ),
    cache: Type.Object(
      {
        enabled: Type.Boolean({
          description:
            'Whether identical jobs get a cached response without a call to the model (`message_cache_ttl`).',
        }),
      },
      strict,
    ),
    sync: Type.Object(
      {
        max_waiters: Type.Integer({
          minimum: 0,
          description:
            'Maximum requests that wait for jobs at the same time; a read with `wait` counts once for each job. A sixteenth is reserved for accounts with few waiting requests.',
        }),
      },
      strict,
    ),
    v1: Type.Object(
      {
        rejoin_seconds: seconds(
          'For this long after a caller has disconnected, an identical `/v1` request joins the job instead of creating another. Requests that clients mark as retries always join.',
          0,
        ),
        file_retention_seconds: seconds(
          'How long a file is kept after its upload (unless the upload sets `expires_after`), and a finished batch with its results.',
          60,
        ),
      },
      strict,
    ),
    limits: Type.Object(
      {
        body_bytes: Type.Integer({
          minimum: 1024,
          description: 'Maximum size of the body of a request that creates one job.',
        }),
        batch_body_bytes: Type.Integer({
          minimum: 1024,
          description: 'Maximum size of the body of a batch.',
        }),
        callback_payload_bytes: Type.Integer({
          minimum: 2,
          description: 'Maximum size of a `callback_payload`, as sent.',
        }),
        schema_bytes: Type.Integer({
          minimum: 2,
          description: 'Maximum size of a `schema`, as sent.',
        }),
        json_depth: Type.Integer({
          minimum: 8,
          maximum: 512,
          description:
            'Maximum nesting depth of request bodies and JSON answers. A deeper answer fails the job with `validation_error`.',
        }),
        queued_writes: Type.Integer({
          minimum: 1,
          description: 'Maximum writes that wait for the database.',
        }),
        unknown_keys_per_minute: Type.Integer({
          minimum: 1,
          description:
            'Maximum unknown API keys from one address (IPv6: one /64) per minute. Existing keys always work.',
        }),
        rejections_per_second: Type.Integer({
          minimum: 1,
          description:
            'Maximum rejected requests per second of one account or, without a valid key, of one address (IPv6: one /64). A rejected body of 10 KiB counts like five more. Further rejections are delayed.',
        }),
        cancels_per_minute: Type.Integer({
          minimum: 1,
          description: 'Maximum jobs that a key may cancel per minute on each node.',
        }),
        deletes_per_minute: Type.Integer({
          minimum: 1,
          description: 'Maximum jobs that a key may delete per minute on each node.',
        }),
        idempotency_seconds: seconds('How long an Idempotency-Key is remembered.', 60),
        header_timeout_seconds: seconds('Time limit for receiving the headers of a request.', 1),
        request_timeout_seconds: seconds('Time limit for receiving a whole request.', 1),
        stalled_write_seconds: seconds(
          'A connection is closed after its client has read nothing of a response for this long.',
          1,
        ),
        memory_bytes: Type.Union([Type.Integer({ minimum: 16_777_216 }), Type.Null()], {
          description:
            'Memory for uploads, requests, running jobs, callbacks and responses together, estimated from the size of their text. null: half of the heap limit (`--max-old-space-size`).',
        }),
        connections: Type.Integer({ minimum: 1, description: 'Maximum open connections of a node.' }),
        connections_per_address: Type.Integer({
          minimum: 1,
          description:
            'Maximum open connections from one address (IPv6: one /64). Loopback and the proxies in `trust_proxy` are exempt.',
        }),
      },
      strict,
    ),
    cpu: Type.Object(
      {
        threads: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
          description:
            'Threads for large bodies and answers, token counts and long schema checks. null: one per core, at least 2 and at most 8. They start on demand. With four or more, one is reserved for accounts that use none.',
        }),
        max_requests: Type.Integer({
          minimum: 4,
          description:
            'Maximum requests that use these threads at the same time. One account can use a quarter.',
        }),
        thread_heap_mb: Type.Integer({
          minimum: 64,
          description:
            'Heap limit of each thread, in MiB. A thread does not parse a text that may need more: a value counts at least 80 bytes, and a character 4. A body then gets 413, and the job of such an answer fails.',
        }),
      },
      strict,
    ),
    callbacks: Type.Object(
      {
        retry_seconds: Type.Array(seconds('Delay in seconds.'), {
          minItems: 1,
          description:
            'The delay before each attempt, with ±20% jitter. The number of entries is the number of attempts.',
        }),
        timeout_seconds: Type.Number({ exclusiveMinimum: 0, description: 'Time limit for one attempt.' }),
        concurrency: slots('Maximum concurrent first attempts of a node.'),
        retry_concurrency: slots('Maximum concurrent retries of a node.'),
        concurrency_per_origin: slots(
          'Maximum concurrent attempts of a node to one origin (scheme, host and port).',
        ),
        in_flight_bytes: Type.Integer({
          minimum: 1_048_576,
          description:
            'Maximum bytes of callback bodies over 16 KiB that a node holds in memory, but at most a fortieth of `limits.memory_bytes` (an eighth, and a body takes five times its size). The rest wait up to 15 s in a slot, then in the database. A larger body is sent alone.',
        }),
        allow_networks: Type.Array(Type.String(), {
          description: 'Private networks (CIDR) that callbacks may be sent to.',
        }),
        https_only: Type.Boolean({ description: 'Whether to reject callback URLs that use http.' }),
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

/** Only commands read the environment of the process, and pass it as an argument. */
export type Environment = Readonly<Record<string, string | undefined>>

/** An entry of `upstreams` gets these values for keys that it does not set. */
export const UPSTREAM_DEFAULTS: UpstreamSettings = {
  base_url: 'https://api.openai.com/v1',
  api_key_env: 'OPENAI_API_KEY',
  max_concurrency: null,
  requests_per_minute: null,
  tokens_per_minute: null,
  call_timeout_seconds: 300,
  roles: null,
  structured_output: 'json_schema',
  headers: {},
  query: {},
  body: {},
  wake_url: null,
  ca_file: null,
}

const EVERY_TIER = {
  creates_per_minute: null,
  max_output_tokens: null,
  max_monthly_jobs: null,
  max_monthly_tokens: null,
  max_monthly_cost: null,
  over_cap: 'reject',
  max_file_bytes: 200_000_000,
  max_batch_lines: 50_000,
} as const

export const DEFAULTS: Settings = {
  host: '127.0.0.1',
  threads: 'auto',
  port: 8080,
  database: DEFAULT_DATABASE,
  postgres: { connections: 10, prepared_statements: true, statement_timeout_seconds: 15 },
  trust_proxy: false,
  cors: { origins: [] },
  simulator: 'auto',
  upstreams: { openai: UPSTREAM_DEFAULTS },
  models: {
    'gpt-5': { targets: [{ upstream: 'openai', model: 'gpt-5' }] },
    'gpt-5.2': { targets: [{ upstream: 'openai', model: 'gpt-5.2' }] },
    'gpt-5-mini': { targets: [{ upstream: 'openai', model: 'gpt-5-mini' }] },
    'gpt-auto': { auto: [{ model: 'gpt-5-mini', up_to_tokens: 2000 }, { model: 'gpt-5' }] },
  },
  tiers: {
    user_free: {
      ...EVERY_TIER,
      models: ['gpt-auto', 'gpt-5-mini'],
      max_batch_jobs: 2,
      reads_per_minute: 300,
      max_input_tokens: 16_000,
      priorities: ['normal', 'low'],
      weight: 1,
      max_open_jobs: 1000,
      max_stored_bytes: 1_073_741_824,
      max_files: 100,
    },
    user_go: {
      ...EVERY_TIER,
      models: 'all',
      max_batch_jobs: 10,
      reads_per_minute: 600,
      max_input_tokens: 64_000,
      priorities: ['normal', 'low'],
      weight: 2,
      max_open_jobs: 10_000,
      max_stored_bytes: 10_737_418_240,
      max_files: 300,
    },
    user_pro: {
      ...EVERY_TIER,
      models: 'all',
      max_batch_jobs: 20,
      reads_per_minute: 1200,
      max_input_tokens: 128_000,
      priorities: ['normal', 'low'],
      weight: 4,
      max_open_jobs: 100_000,
      max_stored_bytes: 107_374_182_400,
      max_files: 1000,
    },
    user_max: {
      ...EVERY_TIER,
      models: 'all',
      max_batch_jobs: 30,
      reads_per_minute: 3000,
      max_input_tokens: 256_000,
      priorities: ['high', 'normal', 'low'],
      weight: 8,
      max_open_jobs: null,
      max_stored_bytes: null,
      max_files: 1000,
    },
  },
  jobs: {
    concurrency: null,
    retention_seconds: 604_800,
    run_timeout_seconds: 600,
    patience_seconds: 3600,
    max_attempts: 3,
    lease_seconds: 30,
    hang_seconds: 300,
    drain_seconds: 20,
  },
  shutdown: { listen_seconds: 0 },
  cache: { enabled: true },
  sync: { max_waiters: 20_000 },
  v1: { rejoin_seconds: 600, file_retention_seconds: 2_592_000 },
  limits: {
    body_bytes: 2_097_152,
    batch_body_bytes: 10_485_760,
    callback_payload_bytes: 65_536,
    schema_bytes: 262_144,
    json_depth: 64,
    queued_writes: 20_000,
    unknown_keys_per_minute: 60,
    rejections_per_second: 1000,
    cancels_per_minute: 300,
    deletes_per_minute: 300,
    idempotency_seconds: 86_400,
    header_timeout_seconds: 10,
    request_timeout_seconds: 30,
    stalled_write_seconds: 15,
    memory_bytes: null,
    connections: 20_000,
    connections_per_address: 2000,
  },
  cpu: { threads: null, max_requests: 256, thread_heap_mb: 256 },
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
