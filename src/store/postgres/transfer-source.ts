/** Reads a whole Postgres for a copy, as it was at one moment, while no server uses it. */
import pg from 'pg'
import type { AuditEntry } from '../audit-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
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
import { readTransferredJob } from '../transferred-job.ts'
import type { UsageRecord } from '../usage-store.ts'
import { ACT_COLUMNS } from './audit.ts'
import { connectionSettings, type Row } from './database.ts'
import { migratePostgres } from './schema.ts'
import { CopyConnection } from './transfer-connection.ts'
import { sumsOfUsage, usageRecord } from './usage.ts'

export async function openPostgresSource(url: string): Promise<TransferSource> {
  await refuseUnlessParleys(url)
  await migratePostgres(url)
  const connection = await CopyConnection.begin(url, {
    mode: 'isolation level repeatable read',
    lockTables: 'lock table nodes in share mode',
  })
  try {
    // Every read here is along a key. Without statistics, as after another copy, the planner may think otherwise.
    await connection.run('set local enable_seqscan = off')
    await connection.run('set local enable_hashjoin = off')
    await connection.run('set local enable_mergejoin = off')
    const [line] = await connection.run(TURN)
    return new PostgresSource(connection, Number(line?.turn))
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Migrating would make the tables, and an address that is mistyped would be copied as an empty database. */
async function refuseUnlessParleys(url: string): Promise<void> {
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
  if (!found) throw new DatabaseProblem("This database holds no tables of Parley's.")
}

class PostgresSource implements TransferSource {
  readonly turn: number
  readonly #connection: CopyConnection

  constructor(connection: CopyConnection, turn: number) {
    this.#connection = connection
    this.turn = turn
  }

  accounts(): Batches<TransferredAccount> {
    return this.#batches(ACCOUNTS, [''], (row) => [row.name], readAs<TransferredAccount>)
  }

  keys(): Batches<TransferredKey> {
    return this.#batches(KEYS, [''], (row) => [row.id], readAs<TransferredKey>)
  }

  jobs(): Batches<TransferredJob> {
    const read = (row: Row) => readTransferredJob(row, this.turn)
    return this.#batches(JOBS, [LEAST_ID], (row) => [row.id], read, [BATCH_WEIGHT])
  }

  cachedResponses(nowMs: number): Batches<TransferredResponse> {
    const key = (row: Row) => [row.fingerprint, row.jobId]
    return this.#batches(KEPT, ['', LEAST_ID], key, readAs<TransferredResponse>, [nowMs])
  }

  idempotencyKeys(nowMs: number): Batches<TransferredIdempotencyKey> {
    const key = (row: Row) => [row.account, row.key]
    return this.#batches(IDEMPOTENCY, ['', ''], key, readAs<TransferredIdempotencyKey>, [nowMs])
  }

  usage(): Batches<UsageRecord> {
    return this.#batches(USAGE, ['', '', ''], (row) => [row.account, row.month, row.model], usageRecord)
  }

  auditEntries(): Batches<AuditEntry> {
    return this.#batches(ACTS, [LEAST_ID], (row) => [row.id], readAs<AuditEntry>)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  /** Statements take the key after which to begin, the most rows, and what is `more`. */
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

function readAs<T>(row: Row): T {
  return row as T
}

const LEAST_ID = '00000000-0000-0000-0000-000000000000'

/** What joins the line stands behind what was claimed last, and not before its head (accepting.ts). */
const TURN = `
  select greatest(
    (select max(turn) from nodes),
    (select turn from open_jobs where turn is not null and deaths = 0 order by turn, id limit 1),
    0) as turn`
/** The account's next job follows its last one; how far behind, only its tier would say. */
const ACCOUNTS = `
  select name, tier, secret, previous_secret as "previousSecret", rotated_at_ms as "rotatedAtMs",
    suspended_at_ms as "suspendedAtMs", cap_jobs as "capJobs", cap_tokens as "capTokens",
    (select o.turn + 1 from open_jobs o where o.account = name and o.turn is not null
      order by o.turn desc limit 1) as "nextTurn"
  from accounts where name > $1 order by name limit $2`
const KEYS = `
  select id, account, hash, created_at_ms as "createdAtMs", expires_at_ms as "expiresAtMs",
    revoked_at_ms as "revokedAtMs"
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
  select j.id, j.account, j.tier, j.model, j.cache_ttl_s as "cacheTtlS", j.input_tokens as "inputTokens",
    j.created_at_ms as "createdAtMs", j.messages, j.response_format as "responseFormat", j.callback,
    coalesce(o.attempt, q.attempt) as attempt, q.turn, coalesce(o.deaths, q.deaths) as deaths,
    o.status, o.content, o.error, o.usage, o.receipt, o.claimed_at_ms as "claimedAtMs", o.settled_at_ms as "settledAtMs",
    ${CALLBACK_SELECT}
  from weighed w join jobs j on j.id = w.id
    left join outcomes o on o.id = w.id
    left join open_jobs q on q.id = w.id
    left join callbacks c on c.job_id = w.id
  where coalesce(w.total_before, 0) < $3::bigint
  order by w.id`
const KEPT = `
  select fingerprint, job_id as "jobId", kept_at_ms as "keptAtMs", until_ms as "untilMs"
  from kept_answers where (fingerprint, job_id) > ($1, $2::uuid) and until_ms > $4::bigint
  order by fingerprint, job_id limit $3`
const IDEMPOTENCY = `
  select account, key, fingerprint, job_ids as "jobIds", until_ms as "untilMs"
  from idempotency where (account, key) > ($1, $2) and until_ms > $4::bigint order by account, key limit $3`
/** What is not folded yet, too. */
const USAGE = `${sumsOfUsage('(account, month, model) > ($1, $2, $3)')} order by account, month, model limit $4`
const ACTS = `select ${ACT_COLUMNS} from audit where id > $1::uuid order by id limit $2`
