/**
 * The one connection of a transfer, in its one transaction. While it is open no server uses the database: running servers are
 * found by their leases, and starting ones by the lock that they request (transfer-lock.ts).
 */
import pg from 'pg'
import { DatabaseProblem } from '../database-problem.ts'
import type { Row } from '../rows.ts'
import { connectionSettings, type Queries, type Statement } from './database.ts'
import { TRANSFER_LOCK } from './transfer-lock.ts'

/** Far longer than the other database takes for a batch. The transaction of a transfer whose machine is gone ends after it. */
const IDLE_MS = 600_000
const LOCK_MS = 5_000

export interface TransferTransaction {
  /** Such as `isolation level repeatable read`. */
  readonly mode: string
  /** Keeps processes that do not request the lock, such as a node that was suspended, from writing meanwhile. */
  readonly lockTables: string
}

export class TransferConnection implements Queries {
  readonly #client: pg.Client

  private constructor(client: pg.Client) {
    this.#client = client
    // A connection that breaks is reported by the next statement on it.
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

  /** Not prepared by its name: batches are large, and a pooler may have given others the same connection before. */
  run(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return asProblem(async () => (await this.#client.query<Row>(text, [...values])).rows)
  }

  /** What was not committed is rolled back. */
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
