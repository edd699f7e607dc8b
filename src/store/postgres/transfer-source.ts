/** Reads a whole Postgres for a transfer, as it was at one moment, while no server uses it. */
import pg from 'pg'
import { AUDIT_COLUMNS, readAuditEntry } from '../audit-rows.ts'
import type { AuditEntry } from '../audit-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import type { Row } from '../rows.ts'
import {
  BATCH_ROWS,
  BATCH_WEIGHT,
  type Batches,
  CALLBACK_SELECT,
  type TransferredAccount,
  type TransferredIdempotencyKey,
  type TransferredJob,
  type TransferredKey,
  type TransferredResponse,
  type TransferSource,
} from '../transfer-contract.ts'
import {
  readTransferredAccount,
  readTransferredIdempotencyKey,
  readTransferredJob,
  readTransferredKey,
  readTransferredResponse,
} from '../transferred-rows.ts'
import { readUsage } from '../usage-rows.ts'
import type { UsageRecord } from '../usage-store.ts'
import { connectionSettings } from './database.ts'
import { migratePostgres } from './schema.ts'
import { TransferConnection } from './transfer-connection.ts'
import { sumsOfUsage } from './usage.ts'

export async function openPostgresSource(url: string): Promise<TransferSource> {
  await rejectUnlessParley(url)
  await migratePostgres(url)
  const connection = await TransferConnection.begin(url, {
    mode: 'isolation level repeatable read',
    lockTables: 'lock table nodes in share mode',
  })
  try {
    // Every read here is along a key. Without statistics, as after another transfer, the planner may choose otherwise.
    await connection.run('set local enable_seqscan = off')
    await connection.run('set local enable_hashjoin = off')
    await connection.run('set local enable_mergejoin = off')
    const [queue] = await connection.run(TURN)
    return new PostgresSource(connection, Number(queue?.turn))
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Migrating would create the tables, and a mistyped address would be transferred as an empty database. */
async function rejectUnlessParley(url: string): Promise<void> {
  const client = new pg.Client(connectionSettings(url, null))
  client.on('error', () => {})
  let found: boolean
  try {
    await client.connect()
    const { rows } = await client.query<{ found: boolean }>(
      `select to_regclass('schema_version') is not null as found`,
    )
    found = rows[0]?.found === true
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    throw new DatabaseProblem(`The database cannot be used: ${message || code}.`, { cause: error })
  } finally {
    await client.end()
  }
  if (!found) throw new DatabaseProblem('This database has no tables of Parley.')
}

class PostgresSource implements TransferSource {
  readonly turn: number
  readonly #connection: TransferConnection

  constructor(connection: TransferConnection, turn: number) {
    this.#connection = connection
    this.turn = turn
  }

  accounts(): Batches<TransferredAccount> {
    return this.#batches(ACCOUNTS, [''], (row) => [row.name], readTransferredAccount)
  }

  keys(): Batches<TransferredKey> {
    return this.#batches(KEYS, [''], (row) => [row.id], readTransferredKey)
  }

  jobs(): Batches<TransferredJob> {
    const read = (row: Row) => readTransferredJob(row, this.turn)
    return this.#batches(JOBS, [LEAST_ID], (row) => [row.id], read, [BATCH_WEIGHT])
  }

  cachedResponses(nowMs: number): Batches<TransferredResponse> {
    const key = (row: Row) => [row.fingerprint, row.job_id]
    return this.#batches(RESPONSES, ['', LEAST_ID], key, readTransferredResponse, [nowMs])
  }

  idempotencyKeys(nowMs: number): Batches<TransferredIdempotencyKey> {
    const key = (row: Row) => [row.account, row.key]
    return this.#batches(IDEMPOTENCY, ['', ''], key, readTransferredIdempotencyKey, [nowMs])
  }

  usage(): Batches<UsageRecord> {
    return this.#batches(USAGE, ['', '', ''], (row) => [row.account, row.month, row.model], readUsage)
  }

  auditEntries(): Batches<AuditEntry> {
    return this.#batches(AUDIT, [LEAST_ID], (row) => [row.id], readAuditEntry)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  /** Statements take the key after which to begin, the number of rows, and `more`. */
  async *#batches<T>(
    text: string,
    least: readonly unknown[],
    keyOf: (row: Row) => readonly unknown[],
    read: (row: Row) => T,
    more: readonly unknown[] = [],
  ): AsyncGenerator<readonly T[]> {
    for (let after = least; ; ) {
      const rows = await this.#connection.run(text, [...after, BATCH_ROWS, ...more])
      const last = rows.at(-1)
      if (!last) return
      after = keyOf(last)
      yield rows.map(read)
    }
  }
}

const LEAST_ID = '00000000-0000-0000-0000-000000000000'

/** A job that is queued comes after the job that was claimed last, and not before the head of the queue (accept.ts). */
const TURN = `
  select greatest(
    (select max(turn) from nodes),
    (select turn from open_jobs where turn is not null and deaths = 0 order by turn, id limit 1),
    0) as turn`
/** The account's next job comes after its last one; only its tier decides how far after. */
const ACCOUNTS = `
  select name, tier, secret, previous_secret, rotated_at_ms,
    suspended_at_ms, cap_jobs, cap_tokens, cap_open_jobs, cap_stored_bytes,
    (select o.turn + 1 from open_jobs o where o.account = name and o.turn is not null
      order by o.turn desc limit 1) as next_turn
  from accounts where name > $1 order by name limit $2`
const KEYS = `
  select id, account, hash, created_at_ms, expires_at_ms,
    revoked_at_ms
  from keys where id > $1 order by id limit $2`
/** $3 the bytes of text after which a batch ends, one job at least. Sizes are known without reading the texts. */
const JOBS = `
  with page as materialized (
    select id, octet_length(messages) + octet_length(response_format) + coalesce(octet_length(callback), 0) as bytes
    from jobs where id > $1::uuid order by id limit $2
  ),
  weighed as (
    select p.id, sum(p.bytes + coalesce(octet_length(o.receipt), 0) + coalesce(octet_length(o.content), 0)
      + coalesce(octet_length(o.error), 0)) over w as total_before
    from page p left join outcomes o on o.id = p.id
    window w as (order by p.id rows between unbounded preceding and 1 preceding)
  )
  select j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens,
    j.created_at_ms, j.messages, j.response_format, j.callback,
    coalesce(o.attempt, q.attempt) as attempt, q.turn, coalesce(o.deaths, q.deaths) as deaths,
    q.route, q.earlier, q.waits_since_ms, q.waited_ms,
    o.status, o.content, o.error, o.usage, o.receipt, o.claimed_at_ms, o.settled_at_ms,
    ${CALLBACK_SELECT}
  from weighed w join jobs j on j.id = w.id
    left join outcomes o on o.id = w.id
    left join open_jobs q on q.id = w.id
    left join callbacks c on c.job_id = w.id
  where coalesce(w.total_before, 0) < $3::bigint
  order by w.id`
const RESPONSES = `
  select fingerprint, job_id, kept_at_ms, until_ms
  from kept_answers where (fingerprint, job_id) > ($1, $2::uuid) and until_ms > $4::bigint
  order by fingerprint, job_id limit $3`
const IDEMPOTENCY = `
  select account, key, fingerprint, job_ids, until_ms
  from idempotency where (account, key) > ($1, $2) and until_ms > $4::bigint order by account, key limit $3`
/** Includes usage that has not been folded yet. */
const USAGE = `${sumsOfUsage('(account, month, model) > ($1, $2, $3)')} order by account, month, model limit $4`
const AUDIT = `select ${AUDIT_COLUMNS} from audit where id > $1::uuid order by id limit $2`
