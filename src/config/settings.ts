/**
 * All settings with their names, types, limits, defaults and meanings, in one table. The validation of the configuration
 * file, its JSON Schema for editors, and docs/settings.md are generated from it.
 */

import { PRIORITIES } from '../job/priority.ts'
import { MODEL_NAME } from '../job/request.ts'
import { type Static, Type } from '../typed-schema.ts'
import { DEFAULT_DATABASE } from './database-url.ts'

const strict = { additionalProperties: false } as const

const host = Type.String({
  minLength: 1,
  description: 'Address to listen on: for example `::` for all addresses, or `unix:/path` for a Unix socket.',
})

const slots = (description: string) => Type.Integer({ minimum: 1, description })

/** A header name: a token of RFC 9110. */
const HEADER_NAME = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

const amount = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, description })

const price = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        input: amount(
          'What a million input tokens cost, in the `currency`, with up to nine decimals. Without a price, calls are not counted in money. An entry of `targets` can have its own `price`; a model with `auto` has the prices of the models that it chooses from.',
        ),
        cached_input: Type.Optional(
          amount('The same for input tokens that the server had cached. Absent: as `input`.'),
        ),
        output: amount('The same for output tokens.'),
      },
      { ...strict, description },
    ),
  )

const perMinute = (what: string) =>
  `Maximum ${what} per minute. Jobs wait until they fit. On Postgres, all nodes share it.`
const TOKENS_PER_MINUTE =
  'input and output tokens of all calls, as the server counts them; until an answer is known, an estimate'

const targetRate = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }))
const upstreamRate = (what: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: `${perMinute(what)} null: no limit. Entries of \`targets\` can have their own.`,
  })

const target = Type.Object(
  {
    upstream: Type.String({ minLength: 1, description: 'Name of an entry of `upstreams`.' }),
    model: Type.String({ minLength: 1, description: 'The name of the model on that server.' }),
    price: price('What calls to this target cost, instead of the `price` of the model.'),
    requests_per_minute: targetRate(
      `${perMinute('calls of this model on this upstream')} Several entries for it share the lowest limit.`,
    ),
    tokens_per_minute: targetRate(perMinute(`tokens of this model on this upstream`)),
  },
  { ...strict, description: 'A model on an upstream.' },
)

const candidate = Type.Object(
  {
    model: Type.String({ minLength: 1, description: 'A public model name with targets.' }),
    up_to_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'The largest input, in tokens, that this model is chosen for; if absent, any input.',
      }),
    ),
  },
  { ...strict, description: 'A model to choose from, by input size.' },
)

const model = Type.Object(
  {
    targets: Type.Optional(Type.Array(target, { minItems: 1, description: 'Tried in order.' })),
    auto: Type.Optional(
      Type.Array(candidate, {
        minItems: 1,
        description:
          'Instead of targets: other public models. Parley chooses one by input size, from those that the tier may use.',
      }),
    ),
    v1_cache: Type.Optional(
      Type.Boolean({
        description:
          'Whether requests to `/v1` with this model use the response cache; otherwise only those with the header `x-parley-cache: true` do.',
      }),
    ),
    price: price('What calls cost.'),
    max_output_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Output tokens for which a job reserves money (`max_monthly_cost`) if neither `options.max_tokens` nor `max_output_tokens` of its tier limits its answer. Absent: 4096. Parley does not send it to the server.',
      }),
    ),
  },
  { ...strict, description: 'A public model name: either `targets` or `auto`.' },
)

/** A value that may be a secret, which should then come from the environment. */
const secretValue = (description: string) =>
  Type.Union(
    [
      Type.String(),
      Type.Object({ env: Type.String({ minLength: 1, description: 'The environment variable.' }) }, strict),
    ],
    {
      description: `${description} A string, or \`{ "env": "VARIABLE" }\` for the value of an environment variable.`,
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
        'Maximum concurrent calls. null: as many as `jobs.concurrency` allows. If set, the limit starts at this value; otherwise it starts at 8, except for api.openai.com, and doubles while calls succeed. It halves when the server responds with 429 or 503, or does not respond in time.',
    }),
    requests_per_minute: upstreamRate('calls'),
    tokens_per_minute: upstreamRate(TOKENS_PER_MINUTE),
    call_timeout_seconds: Type.Number({
      exclusiveMinimum: 0,
      description: 'A call that takes longer is aborted and counts as a retryable error.',
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
          'How the four roles are sent. `native`: unchanged. `developer_as_system`: `developer` as `system`. `merged_system`: leading system and developer messages are merged into one system message, and later ones stay where they are, as system messages. `no_system`: only alternating user and assistant messages; system and developer messages are merged into the next user message. `auto`: `merged_system`, or `no_system` if the server rejects that. null: `native` for api.openai.com and Azure OpenAI, `auto` for other servers.',
      },
    ),
    structured_output: Type.Union(
      [Type.Literal('json_schema'), Type.Literal('json_object'), Type.Literal('none')],
      {
        description:
          'How the server supports JSON output. Without `json_schema`, the schema is sent as an instruction.',
      },
    ),
    headers: Type.Record(
      secretValue('A header to send with each request, such as `api-key` for Azure OpenAI.'),
      { ...strict, pattern: HEADER_NAME },
    ),
    query: Type.Record(
      secretValue('A query parameter to send with each request, such as `api-version` for Azure OpenAI.'),
      { ...strict, pattern: '^.+$' },
    ),
    body: Type.Record(
      Type.Unknown({
        description:
          'A field to add to the body of each completion request, such as `max_tokens` or `temperature`. Strings of 8 characters or more in it, except names of models, are masked in messages of the server.',
      }),
      { ...strict, pattern: '^.+$' },
    ),
    wake_url: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description:
        'A URL that gets a POST with `{"upstream":"NAME"}` while jobs wait and the server is away, every 30 seconds from each node: for model servers that scale to zero.',
    }),
    ca_file: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description:
        'A PEM file of certificates to trust in addition to those of the system, for a server with a private certificate.',
    }),
  },
  { ...strict, description: 'An OpenAI-compatible model server.' },
)

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: `${description} null: no cap. An account can have its own (\`parley accounts cap\`).`,
  })

const tier = Type.Object(
  {
    models: Type.Union([Type.Literal('all'), Type.Array(Type.String({ minLength: 1 }))], {
      description: 'The public model names that the tier may use, or "all".',
    }),
    max_batch_jobs: Type.Integer({ minimum: 1, description: 'Maximum jobs in one batch request.' }),
    reads_per_minute: Type.Integer({
      minimum: 1,
      description: 'Maximum reads per minute, for each key and node.',
    }),
    creates_per_minute: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description:
        'Maximum jobs that an account creates per minute, on each node; each job of a batch counts. Further creates get 429 with Retry-After. null: no limit.',
    }),
    max_input_tokens: Type.Integer({ minimum: 1, description: 'Maximum input tokens of one job.' }),
    max_output_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description:
        'Maximum tokens of one answer. A job that asks for more with `options.max_tokens` is rejected with 403; one without it gets this limit. null: no limit.',
    }),
    priorities: Type.Array(Type.Union(PRIORITIES.map((one) => Type.Literal(one))), {
      description:
        'The values of `priority` that the tier may use. Others are rejected with 403. A job without `priority` is always normal.',
    }),
    weight: Type.Number({
      exclusiveMinimum: 0,
      description: 'Relative share of the slots while jobs are queued.',
    }),
    max_monthly_jobs: cap(
      'Maximum jobs of one account in a calendar month (UTC). Further jobs are rejected with 403.',
    ),
    max_monthly_tokens: cap(
      'Maximum input and output tokens of one account in a calendar month (UTC), as counted by the model servers. Once they are used up, new jobs are rejected with 403.',
    ),
    max_monthly_cost: Type.Union([Type.Number({ minimum: 0, maximum: 1_000_000_000 }), Type.Null()], {
      description:
        'Maximum cost of one account in a calendar month (UTC), in the `currency`. An open job counts with its highest possible cost. Further jobs of models with a price are rejected with 403, or wait (`over_cap`). null: no cap. An account can have its own (`parley accounts cap`).',
    }),
    over_cap: Type.Union([Type.Literal('reject'), Type.Literal('wait')], {
      description:
        'What happens to jobs that exceed a cap in money. `reject`: they get 403. `wait`: they are accepted, and stay queued until the cap has room.',
    }),
    max_open_jobs: cap(
      'Maximum jobs of one account that are queued or running at the same time. Further jobs are rejected with 403.',
    ),
    max_stored_bytes: cap(
      'Maximum bytes that the jobs of one account store until they expire or are deleted: conversations, schemas, callbacks with payloads, and answers; its files count as well. Further jobs are rejected with 403. Accepted jobs still run, so their answers may exceed the limit.',
    ),
    max_files: Type.Integer({
      minimum: 0,
      description:
        'Maximum files of one account, the results of its batches included. Further uploads are rejected with 429; batches still write their results.',
    }),
    max_file_bytes: Type.Integer({
      minimum: 1,
      description: 'Maximum bytes of one uploaded file. Larger uploads are rejected with 413.',
    }),
    max_batch_lines: Type.Integer({
      minimum: 1,
      description: 'Maximum lines of a batch at `/v1/batches`. One with more fails.',
    }),
  },
  {
    ...strict,
    description:
      'The limits for the accounts of a tier. The tiers are user_free, user_go, user_pro and user_max, and those that you add.',
  },
)

/** Names of custom tiers. */
const TIER_NAME = '^(?!user_(?:free|go|pro|max)$)[a-z][a-z0-9_-]{0,31}$'

const ownTier = Type.Object(
  {
    based_on: Type.Union(
      (['user_free', 'user_go', 'user_pro', 'user_max'] as const).map((name) => Type.Literal(name)),
      {
        description:
          'For a tier of your own, and required there: the tier whose values it takes where it sets none.',
      },
    ),
    ...tier.properties,
  },
  { ...strict, description: 'A tier of your own.' },
)

const seconds = (description: string, minimum = 0) => Type.Number({ minimum, description })

export const settingsSchema = Type.Object(
  {
    $schema: Type.Optional(
      Type.String({ description: 'The JSON Schema of this file, for editors. Parley ignores it.' }),
    ),
    host,
    port: Type.Integer({
      minimum: 0,
      maximum: 65535,
      description: 'Port to listen on; 0 picks a free one.',
    }),
    threads: Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 1, maximum: 64 })], {
      description:
        'Deprecated: it has no effect. In 0.3, the number of threads that serve HTTP. To use more cores, run several nodes on one Postgres.',
    }),
    database: Type.String({
      description: '`sqlite:PATH`, a file for one server; or `postgres://…`, shared by many nodes.',
    }),
    postgres: Type.Object(
      {
        connections: Type.Integer({
          minimum: 3,
          description:
            'Connections that each node opens to Postgres, in addition to one for notifications and one for its lease.',
        }),
        prepared_statements: Type.Boolean({
          description:
            'Whether to use named prepared statements. Set it to false only behind PgBouncer before 1.21 in transaction pooling mode.',
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
        'Whether to trust X-Forwarded-For: true, false, or a comma-separated list of proxy addresses or ranges.',
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
        'Whether the built-in simulator answers every job instead of the model servers. `auto`: only if no model server is configured, on SQLite, on a loopback address and without `trust_proxy`; in other cases without a model server, the server does not start.',
    }),
    upstreams: Type.Record(upstream, { ...strict, pattern: '^[A-Za-z0-9_.-]{1,64}$' }),
    models: Type.Record(model, { ...strict, pattern: MODEL_NAME }),
    currency: Type.Optional(
      Type.String({
        minLength: 3,
        description:
          'The currency of all prices and caps in money, such as EUR. Required if a model has a price.',
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
            'Maximum jobs that a node runs at the same time, including those that wait for a model server in its memory. null: one for each 24 KiB of the memory that running jobs may take (a quarter of `limits.memory_bytes`), at least 16 and at most 10,000.',
        }),
        retention_seconds: seconds('How long a finished job can be read.', 1),
        run_timeout_seconds: Type.Number({
          exclusiveMinimum: 0,
          description:
            'Time limit for one execution, including retries. A job that exceeds it fails with `timeout`. Time spent waiting for a model server, or for a slot there, does not count; with `jobs.patience_seconds` 0, waiting for a slot does.',
        }),
        patience_seconds: seconds(
          'Total time that a job waits for model servers that are unreachable, overloaded, failing or misconfigured, before it fails. With 0, it fails after three tries within a few seconds.',
        ),
        max_attempts: Type.Integer({
          minimum: 1,
          description: 'A job fails once this many nodes have crashed while running it.',
        }),
        lease_seconds: seconds(
          'On Postgres: a node that has not renewed its lease for this long counts as dead, and other nodes run its jobs. Nodes renew three times as often. (A SQLite file has one node, and its lock is the lease.)',
          1,
        ),
        hang_seconds: seconds(
          'On Postgres: a node whose event loop is blocked for this long exits, and other nodes run its jobs. Until then, a busy event loop does not lose the lease.',
          5,
        ),
        drain_seconds: seconds('How long running jobs may continue after SIGTERM before they are released.'),
      },
      strict,
    ),
    shutdown: Type.Object(
      {
        listen_seconds: seconds(
          'After SIGTERM, `/readyz` responds with 503 at once, but the server accepts requests for this long, so that load balancers notice. Then `jobs.drain_seconds` begins. Use 5 behind a load balancer that checks `/readyz`, and on Kubernetes.',
        ),
      },
      strict,
    ),
    cache: Type.Object(
      {
        enabled: Type.Boolean({
          description:
            'Whether identical jobs are completed from a cached response instead of a call (`message_cache_ttl`).',
        }),
      },
      strict,
    ),
    sync: Type.Object(
      {
        max_waiters: Type.Integer({
          minimum: 0,
          description:
            'Maximum requests that wait for jobs at the same time. A read with `wait` counts once for each job. Above the limit, a request that creates a job gets 202, and a read gets the current state, both at once. One sixteenth is reserved for accounts with few waiting requests.',
        }),
      },
      strict,
    ),
    v1: Type.Object(
      {
        rejoin_seconds: seconds(
          'When the caller of a job has disconnected, an equal request to `/v1` joins that job for this long, instead of creating another. A request that is marked as a retry always joins.',
          0,
        ),
        file_retention_seconds: seconds(
          'How long a file is kept after its upload if that has no `expires_after`, and a batch with its results after its end.',
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
          description: 'Maximum size of a `callback_payload`, as sent. A larger one is rejected with 400.',
        }),
        schema_bytes: Type.Integer({
          minimum: 2,
          description:
            'Maximum size of the `schema` of a response format, as sent. A larger one is rejected with 400.',
        }),
        json_depth: Type.Integer({
          minimum: 8,
          maximum: 512,
          description:
            'Maximum nesting depth of a request body, and of a JSON answer; a job whose answer is nested deeper fails with `validation_error`.',
        }),
        queued_writes: Type.Integer({
          minimum: 1,
          description: 'Maximum writes waiting for the database. Further ones are rejected with 503.',
        }),
        unknown_keys_per_minute: Type.Integer({
          minimum: 1,
          description:
            'Maximum unknown API keys from one address (IPv6: one /64) per minute. Further ones are rejected with 429 without a database lookup. Requests with an existing key are never rejected for this reason.',
        }),
        rejections_per_second: Type.Integer({
          minimum: 1,
          description:
            'Rejected requests per second of one account, or of one address (IPv6: one /64) without a valid key. Further rejections are delayed by up to ten seconds. Each 2 KiB of a body counts as one more.',
        }),
        cancels_per_minute: Type.Integer({
          minimum: 1,
          description:
            'Maximum jobs that a key may cancel per minute on each node. Further requests are rejected with 429. Operators have no such limit.',
        }),
        deletes_per_minute: Type.Integer({
          minimum: 1,
          description:
            'Maximum jobs that a key may delete per minute on each node. Further requests are rejected with 429. Operators have no such limit.',
        }),
        idempotency_seconds: seconds('How long an Idempotency-Key is remembered.', 60),
        header_timeout_seconds: seconds('Time limit for receiving the headers of a request.', 1),
        request_timeout_seconds: seconds('Time limit for receiving a whole request.', 1),
        stalled_write_seconds: seconds(
          'A connection is closed if its client reads nothing of a response for this long.',
          1,
        ),
        memory_bytes: Type.Union([Type.Integer({ minimum: 16_777_216 }), Type.Null()], {
          description:
            'Memory that uploads, requests, running jobs, callbacks and responses may use together, as estimated from the size of their text. null: half of the heap limit of the process (`--max-old-space-size`).',
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
            'Threads for CPU-heavy work: bodies and answers over 64 KiB (bodies of a few long strings: over 256 KiB), token counts, and long schema checks. null: one per core, but at least 2 and at most 8. They start on demand and exit after five idle minutes. If there are four or more, one is reserved for accounts that are not using any.',
        }),
        max_requests: Type.Integer({
          minimum: 4,
          description:
            'Maximum requests whose bodies these threads read, or whose tokens they count, at the same time. Further ones are rejected with 503. One account may use a quarter of them.',
        }),
        thread_heap_mb: Type.Integer({
          minimum: 64,
          description:
            'Heap limit of each thread, in MiB. A body that needs more memory to parse is rejected with 413.',
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
            'Maximum bytes of callback bodies that a node holds in memory, within their share of `limits.memory_bytes`. The rest wait in the database. A body larger than this limit is sent alone. Bodies up to 16 KiB do not count.',
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

/** The environment of the process. It is an argument, so that only one place reads it. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The values of keys that an entry of `upstreams` omits. */
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
      models: ['gpt-auto', 'gpt-5-mini'],
      max_batch_jobs: 2,
      reads_per_minute: 300,
      creates_per_minute: null,
      max_input_tokens: 16_000,
      max_output_tokens: null,
      priorities: ['normal', 'low'],
      weight: 1,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
      max_monthly_cost: null,
      over_cap: 'reject',
      max_open_jobs: 1000,
      max_stored_bytes: 1_073_741_824,
      max_files: 100,
      max_file_bytes: 200_000_000,
      max_batch_lines: 50_000,
    },
    user_go: {
      models: 'all',
      max_batch_jobs: 10,
      reads_per_minute: 600,
      creates_per_minute: null,
      max_input_tokens: 64_000,
      max_output_tokens: null,
      priorities: ['normal', 'low'],
      weight: 2,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
      max_monthly_cost: null,
      over_cap: 'reject',
      max_open_jobs: 10_000,
      max_stored_bytes: 10_737_418_240,
      max_files: 300,
      max_file_bytes: 200_000_000,
      max_batch_lines: 50_000,
    },
    user_pro: {
      models: 'all',
      max_batch_jobs: 20,
      reads_per_minute: 1200,
      creates_per_minute: null,
      max_input_tokens: 128_000,
      max_output_tokens: null,
      priorities: ['normal', 'low'],
      weight: 4,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
      max_monthly_cost: null,
      over_cap: 'reject',
      max_open_jobs: 100_000,
      max_stored_bytes: 107_374_182_400,
      max_files: 1000,
      max_file_bytes: 200_000_000,
      max_batch_lines: 50_000,
    },
    user_max: {
      models: 'all',
      max_batch_jobs: 30,
      reads_per_minute: 3000,
      creates_per_minute: null,
      max_input_tokens: 256_000,
      max_output_tokens: null,
      priorities: ['high', 'normal', 'low'],
      weight: 8,
      max_monthly_jobs: null,
      max_monthly_tokens: null,
      max_monthly_cost: null,
      over_cap: 'reject',
      max_open_jobs: null,
      max_stored_bytes: null,
      max_files: 1000,
      max_file_bytes: 200_000_000,
      max_batch_lines: 50_000,
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
