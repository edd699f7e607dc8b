/**
 * Lists every limit of a server: what it limits, for whom, where it is set, what happens beyond it, and the metric that counts
 * it. `docs/limits.md` is generated from this table, and tests compare the table with the settings and the metrics.
 */
import { OPEN_LINES } from '../src/batches/batch-runner.ts'
import { DEFAULTS } from '../src/config/settings.ts'
import { MAX_LISTENERS } from '../src/http/admin/admin-routes.ts'
import { MAX_IDS } from '../src/http/read-jobs.ts'
import { COMPLETE_WITHIN_S } from '../src/job/field-rules.ts'
import { MAX_HEADERS, MAX_HEADERS_BYTES } from '../src/net/callback-headers.ts'
import { MAX_ANSWER_BYTES as RECEIVER_BYTES } from '../src/net/post.ts'
import { MAX_STORED_BATCHES } from '../src/store/batch-store.ts'
import { MAX_SCANNED } from '../src/store/chunked-search.ts'
import { MAX_ANSWER_BYTES } from '../src/upstreams/openai-client.ts'
import { MAX_OPEN_BATCHES } from '../src/v1/batches.ts'
import { METADATA } from '../src/v1/response-fields.ts'
import { UPLOADS_OF_ACCOUNT, UPLOADS_OF_NODE } from '../src/v1/upload.ts'

const METADATA_LIMIT = `${METADATA.pairs} pairs, keys of ${METADATA.keyLength} characters, values of ${METADATA.valueLength}`

export interface Limit {
  readonly name: string
  /** In the setting's path, `tiers.NAME` and `upstreams.NAME` stand for any tier and upstream. */
  readonly setting?: string
  /** The value of a limit that no setting changes. */
  readonly fixed?: string
  /** Absent if the limit counts what it is named after, or if `fixed` contains the unit. */
  readonly unit?: string
  /** What happens beyond the limit. */
  readonly beyond: string
  /** The metric that shows that the limit is reached. Absent if `beyond` implies the metric, or if there is none. */
  readonly metric?: string
}

/** The keys say whom the limits count for, in the order in which a request meets them. */
export const LIMITS: Readonly<Record<string, readonly Limit[]>> = {
  'A connection': [
    {
      name: 'time to send the headers',
      unit: 's',
      setting: 'limits.header_timeout_seconds',
      beyond: '408, closed',
    },
    {
      name: 'time to send the request',
      unit: 's',
      setting: 'limits.request_timeout_seconds',
      beyond: '408, closed',
    },
    {
      name: 'time without reading the response',
      unit: 's',
      setting: 'limits.stalled_write_seconds',
      beyond: 'closed',
      metric: 'parley_connections_stalled_total',
    },
    { name: 'size of the headers', fixed: '16 KiB, 200 headers', beyond: '431, closed' },
  ],
  'An address (IPv6: one /64)': [
    {
      name: 'connections',
      setting: 'limits.connections_per_address',
      beyond: '503, closed',
      metric: 'parley_connections_rejected_total',
    },
    {
      name: 'unknown API keys per minute',
      setting: 'limits.unknown_keys_per_minute',
      beyond: '429',
      metric: 'parley_unknown_key_rejections_total',
    },
    {
      name: 'rejected requests per second (with a valid key: of its account)',
      setting: 'limits.rejections_per_second',
      beyond: 'delayed by up to 10 s',
      metric: 'parley_rejections_delayed_total',
    },
    { name: 'wrong admin tokens per minute', fixed: '10', beyond: '429' },
  ],
  'An API key, on each node': [
    { name: 'reads per minute', setting: 'tiers.NAME.reads_per_minute', beyond: '429' },
    { name: 'jobs cancelled per minute', setting: 'limits.cancels_per_minute', beyond: '429' },
    { name: 'jobs deleted per minute', setting: 'limits.deletes_per_minute', beyond: '429' },
  ],
  'A request': [
    { name: 'body of a request for one job', unit: 'bytes', setting: 'limits.body_bytes', beyond: '413' },
    { name: 'body of a batch', unit: 'bytes', setting: 'limits.batch_body_bytes', beyond: '413' },
    { name: 'uploaded file', unit: 'bytes', setting: 'tiers.NAME.max_file_bytes', beyond: '413' },
    { name: 'slowest upload', fixed: '64 KiB/s over 10 s', beyond: '408' },
    { name: 'nesting depth of JSON', setting: 'limits.json_depth', beyond: '400' },
    { name: 'jobs in a batch', setting: 'tiers.NAME.max_batch_jobs', beyond: '403' },
    { name: 'jobs read by one request', fixed: String(MAX_IDS), beyond: '400' },
    { name: 'time that a request waits', unit: 's', fixed: '120', beyond: '202, or the current state' },
    { name: 'time that a request waits below `/v1`', unit: 's', fixed: '280', beyond: '408' },
  ],
  'A job': [
    { name: 'schema', unit: 'bytes', setting: 'limits.schema_bytes', beyond: '400' },
    { name: 'callback payload', unit: 'bytes', setting: 'limits.callback_payload_bytes', beyond: '400' },
    {
      name: 'callback headers',
      fixed: `${MAX_HEADERS}, ${MAX_HEADERS_BYTES} bytes`,
      beyond: '400',
    },
    { name: 'metadata', fixed: METADATA_LIMIT, beyond: '400' },
    { name: '`complete_within`', unit: 's', fixed: `${COMPLETE_WITHIN_S.most}`, beyond: '400' },
    { name: 'input', unit: 'tokens', setting: 'tiers.NAME.max_input_tokens', beyond: '403' },
    { name: 'output', unit: 'tokens', setting: 'tiers.NAME.max_output_tokens', beyond: '403' },
    {
      name: 'time of one execution',
      unit: 's',
      setting: 'jobs.run_timeout_seconds',
      beyond: 'the job fails with `timeout`',
    },
    {
      name: 'time of waiting for model servers',
      unit: 's',
      setting: 'jobs.patience_seconds',
      beyond: 'the job fails with `model_error`',
    },
    {
      name: 'crashes of nodes that run it',
      setting: 'jobs.max_attempts',
      beyond: 'the job fails with `internal_error`, if no other suspect ran in its last crash',
    },
    { name: 'age of a finished job', unit: 's', setting: 'jobs.retention_seconds', beyond: '404' },
    {
      name: 'age of an `Idempotency-Key`',
      unit: 's',
      setting: 'limits.idempotency_seconds',
      beyond: 'the request creates another job',
    },
    {
      name: 'time in which a repeated `/v1` request joins the job of a caller who disconnected',
      unit: 's',
      setting: 'v1.rejoin_seconds',
      beyond: 'the request creates another job',
    },
  ],
  'An account': [
    {
      name: 'jobs created per minute, on each node',
      setting: 'tiers.NAME.creates_per_minute',
      beyond: '429',
    },
    { name: 'jobs per month', setting: 'tiers.NAME.max_monthly_jobs', beyond: '403' },
    { name: 'tokens per month', setting: 'tiers.NAME.max_monthly_tokens', beyond: '403' },
    {
      name: 'cost per month',
      unit: '`currency`',
      setting: 'tiers.NAME.max_monthly_cost',
      beyond: '403, or the job waits',
    },
    {
      name: 'open jobs',
      setting: 'tiers.NAME.max_open_jobs',
      beyond: '403',
      metric: 'parley_quota_rejections_total',
    },
    {
      name: 'stored data',
      unit: 'bytes',
      setting: 'tiers.NAME.max_stored_bytes',
      beyond: '403',
      metric: 'parley_quota_rejections_total',
    },
    { name: 'open batches', fixed: String(MAX_OPEN_BATCHES), beyond: '429' },
    {
      name: 'stored batches',
      fixed: MAX_STORED_BATCHES.toLocaleString('en'),
      beyond: 'the oldest one is deleted',
    },
    {
      name: 'lines of a batch',
      setting: 'tiers.NAME.max_batch_lines',
      beyond: 'the batch fails',
      metric: 'parley_batches_total',
    },
    {
      name: 'time for a batch to run',
      fixed: '24 h',
      beyond: 'unfinished lines become errors',
      metric: 'parley_batch_lines_total',
    },
    { name: 'files', setting: 'tiers.NAME.max_files', beyond: '429' },
    { name: 'concurrent uploads, on each node', fixed: String(UPLOADS_OF_ACCOUNT), beyond: '429' },
    {
      name: 'age of a file, or of a finished batch',
      unit: 's',
      setting: 'v1.file_retention_seconds',
      beyond: '404',
    },
    { name: 'concurrent lists, on each node', fixed: '2', beyond: '429' },
    {
      name: 'requests on the CPU threads',
      fixed: 'a quarter of `cpu.max_requests`',
      beyond: '503',
      metric: 'parley_cpu_requests_rejected_total',
    },
    {
      name: 'memory',
      fixed: '[half of what other accounts leave free](overload.md#memory), in each share',
      beyond: '503',
      metric: 'parley_memory_rejections_total',
    },
    {
      name: 'slots of a node',
      fixed: '15 of every 16',
      beyond: 'the job waits',
      metric: 'parley_accounts_held_back',
    },
  ],
  'A node': [
    {
      name: 'connections',
      setting: 'limits.connections',
      beyond: '503, closed',
      metric: 'parley_connections_rejected_total',
    },
    {
      name: 'memory for requests, jobs and responses',
      unit: 'bytes',
      setting: 'limits.memory_bytes',
      beyond: 'the request waits 10 s, then 503',
      metric: 'parley_memory_rejections_total',
    },
    {
      name: 'requests on the CPU threads',
      setting: 'cpu.max_requests',
      beyond: '503',
      metric: 'parley_cpu_requests_rejected_total',
    },
    {
      name: 'heap of a CPU thread',
      unit: 'MiB',
      setting: 'cpu.thread_heap_mb',
      beyond: '413, or the batch or job fails',
    },
    {
      name: 'writes that wait for the database',
      setting: 'limits.queued_writes',
      beyond: '503',
      metric: 'parley_database_rejections_total',
    },
    {
      name: 'time of a database statement',
      unit: 's',
      setting: 'postgres.statement_timeout_seconds',
      beyond: '503',
    },
    {
      name: 'requests that wait for jobs',
      setting: 'sync.max_waiters',
      beyond: '202, or the current state',
      metric: 'parley_waiters',
    },
    {
      name: 'running jobs',
      setting: 'jobs.concurrency',
      beyond: 'the job waits',
      metric: 'parley_jobs_running',
    },
    {
      name: 'running lines of batches',
      fixed: OPEN_LINES.toLocaleString('en'),
      beyond: 'the line waits',
      metric: 'parley_batch_lines_running',
    },
    { name: 'concurrent uploads', fixed: String(UPLOADS_OF_NODE), beyond: '503' },
    { name: 'event streams of the admin API', fixed: String(MAX_LISTENERS), beyond: '503' },
    {
      name: 'rows that one search scans',
      fixed: MAX_SCANNED.toLocaleString('en'),
      beyond: '`complete: false`',
    },
  ],
  'A model server': [
    {
      name: 'concurrent calls',
      setting: 'upstreams.NAME.max_concurrency',
      beyond: 'the job waits',
      metric: 'parley_upstream_calls',
    },
    {
      name: 'calls per minute, of all nodes',
      setting: 'upstreams.NAME.requests_per_minute',
      beyond: 'the job waits',
      metric: 'parley_upstream_rate_waiting',
    },
    {
      name: 'tokens per minute, of all nodes',
      setting: 'upstreams.NAME.tokens_per_minute',
      beyond: 'the job waits',
      metric: 'parley_upstream_rate_waiting',
    },
    {
      name: 'time of a call',
      unit: 's',
      setting: 'upstreams.NAME.call_timeout_seconds',
      beyond: 'the next target is called; after the last one, all are called again',
      metric: 'parley_upstream_calls_total',
    },
    { name: 'response', fixed: mebibytes(MAX_ANSWER_BYTES), beyond: 'the job fails with `model_error`' },
  ],
  Callbacks: [
    {
      name: 'concurrent first attempts',
      setting: 'callbacks.concurrency',
      beyond: 'the callback waits',
      metric: 'parley_callbacks_late_seconds',
    },
    {
      name: 'concurrent retries',
      setting: 'callbacks.retry_concurrency',
      beyond: 'the callback waits',
      metric: 'parley_callbacks_late_seconds',
    },
    {
      name: 'concurrent attempts to one origin',
      setting: 'callbacks.concurrency_per_origin',
      beyond: 'the callback waits',
      metric: 'parley_callbacks_late_seconds',
    },
    {
      name: 'bodies in memory',
      unit: 'bytes',
      setting: 'callbacks.in_flight_bytes',
      beyond: 'the callback waits',
      metric: 'parley_callbacks_late_seconds',
    },
    {
      name: 'time of an attempt',
      unit: 's',
      setting: 'callbacks.timeout_seconds',
      beyond: 'the attempt has failed',
      metric: 'parley_callback_attempts_total',
    },
    {
      name: 'attempts: the time before each',
      unit: 's',
      setting: 'callbacks.retry_seconds',
      beyond: 'the callback fails permanently',
      metric: 'parley_callbacks_failed',
    },
    {
      name: 'response of a receiver',
      fixed: `${RECEIVER_BYTES / 1024} KiB`,
      beyond: 'the rest is ignored',
    },
  ],
}

function mebibytes(bytes: number): string {
  return `${bytes / 1024 / 1024} MiB`
}

const INTRODUCTION = `# Limits

Every limit of a server; the headings name what it counts for. Each rejection names the limit in its message; 429 and 503 also carry Retry-After, except where waiting does not help. Below \`/v1\`, a cap or quota gives 429 instead of 403. For tiers, the
tables show the limits of \`user_free\`; [settings](settings.md) has those of the others. \`null\` means no limit; for \`limits.memory_bytes\`,
\`jobs.concurrency\` and \`max_concurrency\`, it means that the server derives the limit from its memory.

Limits without a setting are fixed. The last column names the [metric](monitoring.md) that shows that a limit is reached. If it is empty, look at \`parley_http_requests_total\` with the status,
or at \`parley_jobs_total\` with the code of the failed jobs.
`

/** Returns the text of docs/limits.md. */
export function limitsPage(): string {
  const sections = Object.entries(LIMITS).map(
    ([owner, limits]) =>
      `\n## ${owner}\n\n| limit | setting | default | beyond it | metric |\n|---|---|---|---|---|\n${limits.map(row).join('')}`,
  )
  return INTRODUCTION + sections.join('')
}

function row(limit: Limit): string {
  const { name, setting, fixed, unit, beyond, metric } = limit
  const place = setting === undefined ? '' : `\`${setting}\``
  const value = setting === undefined ? fixed : `\`${JSON.stringify(defaultOf(setting))}\``
  const amount = unit === undefined ? value : `${value} ${unit}`
  return `| ${name} | ${place} | ${amount} | ${beyond} | ${metric === undefined ? '' : `\`${metric}\``} |\n`
}

/** A limit without its own metric is counted by the status of responses, or by the code of failed jobs. */
export function metricOf({ beyond, metric }: Limit): string | undefined {
  const [status] = /^\d{3}\b/.exec(beyond) ?? []
  const [, code] = /^the job fails with `(\w+)`/.exec(beyond) ?? []
  if (metric !== undefined) return metric
  if (status !== undefined) return `parley_http_requests_total{status="${status}"}`
  return code === undefined ? undefined : `parley_jobs_total{outcome="${code}"}`
}

/** @throws if the setting does not exist */
export function defaultOf(setting: string): unknown {
  const path = setting.replace('tiers.NAME', 'tiers.user_free').replace('upstreams.NAME', 'upstreams.openai')
  let value: unknown = DEFAULTS
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !(name in value))
      throw new Error(`no setting ${setting}`)
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return value
}
