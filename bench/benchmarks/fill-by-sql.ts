/**
 * Fills a long queue by SQL, which is much faster than accepting its jobs. The rows equal those that `QueueStore.fill` writes,
 * with the same accounts, batches and turns.
 */
import { DatabaseSync } from 'node:sqlite'
import { requestBytes } from '../../src/store/stored-bytes.ts'
import type { Postgres } from '../harness/postgres.ts'
import { ACCOUNTS, BATCH, QueueStore, ROUTE, STEPS } from './queue-store.ts'

/** A job ID has 12 bits for a counter within its millisecond. */
const IDS_PER_MS = 4096
const RESPONSE_FORMAT = '{"format":"text"}'

/** These SQL expressions give the account of job `i` (counted from 0), its number among that account's jobs, and its turn. */
const ACCOUNT = `i / ${BATCH} % ${ACCOUNTS}`
const PLACE = `(i / ${BATCH * ACCOUNTS} * ${BATCH} + i % ${BATCH})`
const TURN = `${PLACE} * case ${ACCOUNT} % ${STEPS.length} ${STEPS.map((step, at) => `when ${at} then ${step}`).join(' ')} end`

function messagesOf(content: string): string {
  return JSON.stringify([{ role: 'user', content }])
}

export async function fillSqlite(path: string, jobs: number, content: string): Promise<string> {
  const store = await QueueStore.onSqlite(path, () => content)
  await store.close()
  const db = new DatabaseSync(path)
  // No other process uses the file yet, so durability can be off.
  db.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -500000')
  const indexes = db
    .prepare(
      `select name, sql from sqlite_master where type = 'index' and tbl_name = 'jobs' and sql is not null`,
    )
    .all()
  db.exec('begin')
  // Rebuilding an index sorts all rows once, which is faster than updating the index for each row.
  for (const { name } of indexes) db.exec(`drop index ${String(name)}`)
  db.prepare(SQLITE_JOBS).run(jobs, Date.now() - Math.ceil(jobs / IDS_PER_MS), content.length)
  db.prepare(SQLITE_REQUESTS).run(messagesOf(content), RESPONSE_FORMAT)
  db.prepare(SQLITE_QUOTAS).run(requestBytes(messagesOf(content), RESPONSE_FORMAT, null))
  for (const { sql } of indexes) db.exec(String(sql))
  db.exec('commit; pragma journal_mode = wal')
  db.close()
  return store.key
}

const SQLITE_JOBS = `
  with recursive numbers(i) as (select 0 union all select i + 1 from numbers where i + 1 < ?1)
  insert into jobs (id, seq, account, tier, model, status, turn, attempt, deaths, cache_ttl_s, input_tokens, has_callback,
    created_at_ms, route)
  select
    substr(ms, 1, 8) || '-' || substr(ms, 9) || printf('-7%03x-8', i % ${IDS_PER_MS}) || substr(random, 1, 3) || '-' || substr(random, 4),
    i + 1, 'account-' || (${ACCOUNT}), 'user_max', 'gpt-5-mini', 'pending', ${TURN}, 0, 0, 300, ?3, 0, at_ms, '${ROUTE}'
  from (
    select i, ?2 + i / ${IDS_PER_MS} as at_ms, printf('%012x', ?2 + i / ${IDS_PER_MS}) as ms,
      substr(lower(hex(randomblob(8))), 2) as random
    from numbers
  )`
const SQLITE_REQUESTS = `
  insert into requests (seq, messages, response_format) select seq, ?, ? from jobs`
const SQLITE_QUOTAS = `
  insert into quota_sums (account, open_jobs, stored_bytes) select account, count(*), count(*) * ? from jobs group by account`

/** The tables must exist and be empty. */
export async function fillPostgres(
  postgres: Postgres,
  database: string,
  jobs: number,
  content: string,
): Promise<void> {
  const client = await postgres.connect(database)
  const bytes = requestBytes(messagesOf(content), RESPONSE_FORMAT, null)
  const fromMs = Date.now() - Math.ceil(jobs / IDS_PER_MS)
  await client.query('begin')
  await client.query(POSTGRES_NUMBERED, [jobs, fromMs])
  await client.query(POSTGRES_JOBS, [content.length, messagesOf(content), RESPONSE_FORMAT])
  await client.query(POSTGRES_OPEN_JOBS, [bytes])
  await client.query(POSTGRES_QUOTAS, [bytes])
  await client.query('commit')
  await client.end()
}

const POSTGRES_NUMBERED = `
  create temporary table numbered on commit drop as
  select i, 'account-' || (${ACCOUNT}) as account, $2::bigint + i / ${IDS_PER_MS} as at_ms,
    (lpad(to_hex($2::bigint + i / ${IDS_PER_MS}), 12, '0') || '7' || lpad(to_hex(i % ${IDS_PER_MS}), 3, '0')
      || '8' || substr(md5(i::text || $2::text), 1, 15))::uuid as id
  from generate_series(0, $1::bigint - 1) as i`
const POSTGRES_JOBS = `
  insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
  select id, account, 'user_max', 'gpt-5-mini', 300, $1, at_ms, $2, $3 from numbered order by i`
const POSTGRES_OPEN_JOBS = `
  insert into open_jobs (id, account, has_callback, turn, attempt, deaths, bytes, route)
  select id, account, false, ${TURN}, 0, 0, $1, '${ROUTE}' from numbered order by i`
const POSTGRES_QUOTAS = `
  insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes)
  select account, hour_of_job(id), count(*), count(*) * $1::bigint, 0 from numbered group by 1, 2`
