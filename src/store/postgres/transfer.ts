/**
 * A Postgres database as the source or the target of a transfer. The source is read in one snapshot. The target is filled in
 * one transaction; rows of an aborted transfer only take space until vacuum frees it.
 */
import pg from 'pg'
import { jobIdMs } from '../../job/job-id.ts'
import { DatabaseProblem, notEmpty } from '../database-problem.ts'
import type { Expiry } from '../expiry.ts'
import { type Row, textOf } from '../rows.ts'
import { raw, sql } from '../sql.ts'
import { sourceOn } from '../transfer.ts'
import {
  isOfJob,
  type TargetOptions,
  type TransferSource,
  type TransferTarget,
  tablesOf,
} from '../transfer-contract.ts'
import { unnest } from './columns.ts'
import { connectionSettings, type Queries, queryOf, type Statement, withClient } from './database.ts'
import { POSTGRES } from './dialect.ts'
import { isOnRoute } from './fair-order.ts'
import { checkFitness } from './fitness.ts'
import { partitionsFor } from './partitions.ts'
import { QUOTA_COLUMNS } from './quotas.ts'
import { migratePostgres, TRANSFER_LOCK } from './schema.ts'

export async function openPostgresSource(url: string): Promise<TransferSource> {
  await rejectUnlessParley(url)
  await migratePostgres(url)
  const connection = await TransferConnection.begin(url, {
    mode: 'isolation level repeatable read',
    lockTables: 'lock table nodes in share mode',
  })
  try {
    // Every read follows a key. Without statistics, for example after another transfer, the planner might not use the key.
    await connection.run('set local enable_seqscan = off')
    await connection.run('set local enable_hashjoin = off')
    await connection.run('set local enable_mergejoin = off')
    return postgresSource(connection)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Migrating would create Parley's tables, so a mistyped URL would be transferred as an empty database. */
async function rejectUnlessParley(url: string): Promise<void> {
  const find = `select to_regclass('schema_version') is not null as found`
  const { rows } = await withClient(url, null, (client) => client.query<{ found: boolean }>(find)).catch(
    (error: Error & { code?: string }) => {
      throw new DatabaseProblem(`The database cannot be used: ${error.message || error.code}.`, {
        cause: error,
      })
    },
  )
  if (rows[0]?.found !== true) throw new DatabaseProblem('This database has no tables of Parley.')
}

function postgresSource(connection: TransferConnection): TransferSource {
  return sourceOn({
    store: 'postgres',
    dialect: POSTGRES,
    headTurn: sql`(
      select h.turn from open_jobs h where ${raw(isOnRoute('q.route', 'h.'))} order by h.route, h.turn, h.id limit 1)`,
    from: {
      cachedResponses: { key: ['fingerprint', 'job_id'] },
      // Includes deltas that have not been added to the sums yet.
      usage: { table: sql`(${POSTGRES.usage(sql`true`)})` },
    },
    query: (statement) => queryOf(connection, statement),
    close: () => connection.close(),
  })
}

export async function openPostgresTarget(
  url: string,
  { expiry, onNote }: TargetOptions,
): Promise<TransferTarget> {
  await migratePostgres(url)
  const connection = await TransferConnection.begin(url, {
    mode: 'isolation level read committed',
    lockTables: 'lock table nodes, accounts, jobs in share row exclusive mode',
  })
  try {
    await checkFitness(connection, onNote)
    const [row] = await connection.run(HOLDS_ANYTHING)
    if (row?.anything) throw notEmpty('This database')
    return postgresTarget(connection, expiry)
  } catch (error) {
    await connection.close()
    throw error
  }
}

function postgresTarget(connection: TransferConnection, expiry: Expiry): TransferTarget {
  return {
    add: async (kind, rows) => {
      if (kind === 'jobs') {
        const ids = rows.map((row) => jobIdMs(textOf(row, 'id')))
        await partitionsFor(connection, ids, expiry)
      }
      const counts: number[] = []
      for (const { table, names, types, isPartOf } of tablesOf(kind, 'postgres')) {
        const columns = names.join(', ')
        const which = isOfJob(kind) ? 'where exists (select 1 from outcomes o where o.id = t.job_id)' : ''
        const some = rows.filter(isPartOf)
        const added = await connection.run(
          `insert into ${table} (${columns}) select t.* from ${unnest(types, 1)} as t(${columns}) ${which} returning 1`,
          names.map((name) => some.map((row) => row[name])),
        )
        counts.push(added.length)
      }
      return counts[0] ?? 0
    },

    commit: async () => {
      // Until autovacuum has gathered statistics, plans would be made for empty tables.
      await connection.run(
        'analyze accounts, keys, jobs, outcomes, open_jobs, callbacks, kept_answers, idempotency, usage, files, file_pieces, audit, reruns',
      )
      await connection.run('set local enable_seqscan = on')
      await connection.run(QUOTA_SUMS)
      await connection.run('commit')
    },

    close: () => connection.close(),
  }
}

const QUOTA_SUMS = `
  insert into quota_sums (${QUOTA_COLUMNS})
  select j.account, hour_of_job(j.id), count(q.id), coalesce(sum(q.bytes), 0), coalesce(sum(o.bytes), 0),
    coalesce(sum(q.reserved), 0)
  from jobs j left join open_jobs q on q.id = j.id left join outcomes o on o.id = j.id group by 1, 2`
const HOLDS_ANYTHING = `
  select exists (select 1 from accounts) or exists (select 1 from jobs) or exists (select 1 from usage) as anything`

/**
 * If the client disappears, its transaction ends after this time, which is far longer than the other database takes for a
 * batch.
 */
const IDLE_MS = 600_000
const LOCK_MS = 5_000

interface TransferTransaction {
  readonly mode: string
  /** Some processes do not request the transfer lock, for example a suspended node. These locks stop them. */
  readonly lockTables: string
}

/**
 * A transfer has a single connection and transaction. While it is open, no server can use the database: running servers are
 * found by their leases, and starting ones request the same lock (schema.ts).
 */
class TransferConnection implements Queries {
  readonly #client: pg.Client

  private constructor(client: pg.Client) {
    this.#client = client
    // The next statement rejects if the connection is broken, so the event needs no handling.
    client.on('error', () => {})
  }

  /** Rejects with a `DatabaseProblem` if the database is in use. */
  static async begin(url: string, { mode, lockTables }: TransferTransaction): Promise<TransferConnection> {
    const settings = { ...connectionSettings(url, null), idle_in_transaction_session_timeout: IDLE_MS }
    const client = new pg.Client(settings)
    const connection = new TransferConnection(client)
    try {
      await asProblem(() => client.connect())
      await connection.rejectIfServersRun()
      await connection.run(`begin ${mode}`)
      await connection.run(`set local lock_timeout = ${LOCK_MS}`)
      await connection.run(lockTables)
      await connection.run(`select pg_advisory_xact_lock(${TRANSFER_LOCK})`)
      await connection.rejectIfServersRun()
      return connection
    } catch (error) {
      await connection.close()
      throw error
    }
  }

  query({ text }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.run(text, values)
  }

  /** Statements are not prepared, because a pooler may have shared the connection before. */
  run(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return asProblem(async () => (await this.#client.query<Row>(text, [...values])).rows)
  }

  /** Rolls back what was not committed. */
  async close(): Promise<void> {
    await this.#client.end()
  }

  private async rejectIfServersRun(): Promise<void> {
    const rows = await this.run(SERVERS)
    if (rows.length === 0) return
    const seconds = Math.ceil(Math.max(...rows.map((row) => Number(row.seconds))))
    const [verb, them] = rows.length === 1 ? ['server uses', 'it'] : ['servers use', 'each of them']
    throw new DatabaseProblem(
      `${rows.length} Parley ${verb} this database. Stop ${them} with SIGTERM, which finishes or releases running jobs. The lease of one that was killed expires in ${seconds} s.`,
    )
  }
}

async function asProblem<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    if (code === LOCK_NOT_AVAILABLE) {
      throw new DatabaseProblem('Another program holds locks in this database. Stop it first.', {
        cause: error,
      })
    }
    throw new DatabaseProblem(`Postgres reports: ${message || code}.`, { cause: error })
  }
}

const LOCK_NOT_AVAILABLE = '55P03'
const SERVERS = `
  select node, extract(epoch from lease_until - clock_timestamp()) as seconds
  from nodes where lease_until > clock_timestamp()`
