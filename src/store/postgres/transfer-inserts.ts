/** The statements that fill an empty Postgres: columns of rows, as arrays. */
import { CALLBACK_COLUMNS } from '../transfer-contract.ts'
import { USAGE_COLUMNS } from '../usage-rows.ts'
import { NEW_JOB_NAMES, NEW_JOB_TYPES, unnest } from './columns.ts'
import { QUOTA_COLUMNS } from './quotas.ts'

function insert(table: string, names: string, types: readonly string[]): string {
  return `insert into ${table} (${names}) select * from ${unnest(types, 1)}`
}

export const ACCOUNTS = insert(
  'accounts',
  `name, tier, secret, previous_secret, rotated_at_ms, suspended_at_ms, cap_jobs, cap_tokens, cap_open_jobs,
    cap_stored_bytes`,
  [...['text', 'text', 'text', 'text'], ...['bigint', 'bigint', 'bigint', 'bigint', 'bigint', 'bigint']],
)
export const KEYS = insert('keys', 'id, account, hash, created_at_ms, expires_at_ms, revoked_at_ms', [
  'text',
  'text',
  'text',
  'bigint',
  'bigint',
  'bigint',
])
export const JOBS = insert('jobs', NEW_JOB_NAMES, NEW_JOB_TYPES)
export const OPEN_JOBS = insert(
  'open_jobs',
  'id, account, has_callback, turn, attempt, deaths, bytes, route, earlier, waits_since_ms, waited_ms',
  [
    ...['uuid', 'text', 'boolean', 'bigint', 'integer', 'integer', 'bigint'],
    ...['text', 'text', 'bigint', 'bigint'],
  ],
)
export const OUTCOMES = insert(
  'outcomes',
  'id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted, bytes',
  [
    ...['uuid', 'text', 'text', 'text', 'text', 'text', 'text', 'integer', 'integer', 'bigint', 'bigint'],
    'boolean',
    'bigint',
  ],
)
export const CALLBACKS = insert('callbacks', ['job_id', 'account', ...CALLBACK_COLUMNS].join(', '), [
  'uuid',
  'text',
  'integer',
  'integer',
  'integer',
  'bigint',
  'bigint',
  'bigint',
  'bigint',
  'text',
])
export const IDEMPOTENCY = insert('idempotency', 'account, key, fingerprint, job_ids, until_ms', [
  'text',
  'text',
  'text',
  'text',
  'bigint',
])
export const USAGE = insert('usage', USAGE_COLUMNS, [
  ...['text', 'text', 'text'],
  ...['bigint', 'bigint', 'bigint', 'bigint', 'numeric', 'numeric'],
])
export const AUDIT = insert('audit', 'id, at_ms, who, what, account, target, details, outcome', [
  ...['uuid', 'bigint', 'text', 'text', 'text', 'text', 'text', 'text'],
])
export const RESPONSES = `
  insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms)
  select k.* from ${unnest(['text', 'uuid', 'bigint', 'bigint'], 1)} as k(fingerprint, job_id, kept_at_ms, until_ms)
  where exists (select 1 from outcomes o where o.id = k.job_id) returning 1`
/** From what was inserted: what each account has open and stored. */
export const QUOTA_SUMS = `
  insert into quota_sums (${QUOTA_COLUMNS})
  select j.account, hour_of_job(j.id), count(q.id), coalesce(sum(q.bytes), 0), coalesce(sum(o.bytes), 0)
  from jobs j left join open_jobs q on q.id = j.id left join outcomes o on o.id = j.id group by 1, 2`
