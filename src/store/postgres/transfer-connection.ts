/**
 * The one connection of a copy, in the one transaction that it is. While it is open no server uses the database: those that
 * run are found by their leases, and those that start by the lock that they ask for (copy-lock.ts).
 */
import pg from 'pg'
import { DatabaseProblem } from '../database-problem.ts'
import type { Row } from '../rows.ts'
import { connectionSettings, type Queries, type Statement } from './database.ts'
import { COPY_LOCK } from './transfer-lock.ts'

/** Far longer than the other database takes for a batch. A copy whose machine is gone is ended after it. */
const IDLE_MS = 600_000
const LOCK_MS = 5_000

export interface CopyTransaction {
  /** Such as `isolation level repeatable read`. */
  readonly mode: string
  /** Keeps those who are not asked for the lock, such as a node that was suspended, from writing meanwhile. */
  readonly lockTables: string
}

export class CopyConnection implements Queries {
  readonly #client: pg.Client

  private constructor(client: pg.Client) {
    this.#client = client
    // A connection that breaks is told by the statement that meets it.
    client.on('error', () => {})
  }

  /** Rejects with a `DatabaseProblem` where anybody uses the database. */
  static async begin(url: string, { mode, lockTables }: CopyTransaction): Promise<CopyConnection> {
    const settings = { ...connectionSettings(url, null), idle_in_transaction_session_timeout: IDLE_MS }
    const client = new pg.Client(settings)
    const connection = new CopyConnection(client)
    try {
      await told(() => client.connect())
      await connection.refuseServers()
      await connection.run(`begin ${mode}`)
      await connection.run(`set local lock_timeout = ${LOCK_MS}`)
      await connection.run(lockTables)
      await connection.run(`select pg_advisory_xact_lock(${COPY_LOCK})`)
      await connection.refuseServers()
      return connection
    } catch (error) {
      await connection.close()
      throw error
    }
  }

  query({ text }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.run(text, values)
  }

  /** Not prepared by its name: batches are large, and a pooler may have given others the same connection before. */
  run(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return told(async () => (await this.#client.query<Row>(text, [...values])).rows)
  }

  /** What was not committed is rolled back. */
  async close(): Promise<void> {
    await this.#client.end()
  }

  private async refuseServers(): Promise<void> {
    const rows = await this.run(SERVERS)
    if (rows.length === 0) return
    const seconds = Math.ceil(Math.max(...rows.map((row) => Number(row.seconds))))
    const [verb, them] = rows.length === 1 ? ['server uses', 'it'] : ['servers use', 'each of them']
    throw new DatabaseProblem(
      `${rows.length} Parley ${verb} this database. Stop ${them} by SIGTERM, which ends or gives back what runs; one that was killed is known to be gone in ${seconds} s.`,
    )
  }
}

async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    if (code === LOCK_NOT_AVAILABLE) {
      throw new DatabaseProblem('Another program holds locks in this database. End it first.', {
        cause: error,
      })
    }
    throw new DatabaseProblem(`Postgres says: ${message || code}.`, { cause: error })
  }
}

const LOCK_NOT_AVAILABLE = '55P03'
const SERVERS = `
  select node, extract(epoch from lease_until - clock_timestamp()) as seconds
  from nodes where lease_until > clock_timestamp()`
