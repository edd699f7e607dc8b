/**
 * Starts a separate Postgres, as durable as in production. Every side gets the settings of a small server, except that no
 * checkpoint is due during a round.
 */
import pg from 'pg'
import { type Cluster, startCluster } from '../../test/postgres/cluster.ts'
import type { DiskWork } from './load-run.ts'
import { cpuMsOfFamily } from './process-figures.ts'

export const POSTGRES_SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '512MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
}

/** The numbers count since the server's start. */
export interface PostgresWork {
  readonly cpuMs: number
  readonly walBytes: number
  readonly commits: number
}

export class Postgres {
  readonly #cluster: Cluster
  readonly #clients = new Map<string, pg.Client>()

  private constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  static async start(settings: Readonly<Record<string, string | number>> = {}): Promise<Postgres> {
    return new Postgres(await startCluster({ settings: { ...POSTGRES_SETTINGS, ...settings } }))
  }

  url(database = DEFAULT): string {
    return this.#cluster.url(database)
  }

  async createDatabase(name: string): Promise<void> {
    await this.query(`create database ${name}`)
  }

  /** Queries of a database always use the same connection. */
  async query<Row extends pg.QueryResultRow>(text: string, database = DEFAULT): Promise<Row[]> {
    let client = this.#clients.get(database)
    if (client === undefined) {
      client = await this.connect(database)
      this.#clients.set(database, client)
    }
    return (await client.query<Row>(text)).rows
  }

  async number(text: string, database = DEFAULT): Promise<number> {
    const [row] = await this.query(text, database)
    return Number(Object.values(row ?? {})[0])
  }

  async connect(database = DEFAULT): Promise<pg.Client> {
    const client = new pg.Client(this.url(database))
    await client.connect()
    return client
  }

  /** Updates the statistics and writes all data to the disk, as the database would do some time after a fill. */
  async settle(database = DEFAULT): Promise<void> {
    await this.query('vacuum (analyze)', database)
    await this.query('checkpoint', database)
  }

  cpuMs(): number {
    return cpuMsOfFamily(this.#cluster.pid)
  }

  async work(): Promise<PostgresWork> {
    const [row] = await this.query<{ wal: string; commits: string }>(
      `select pg_current_wal_lsn() - '0/0'::pg_lsn as wal,
        (select sum(xact_commit) from pg_stat_database) as commits`,
    )
    return { cpuMs: this.cpuMs(), walBytes: Number(row?.wal), commits: Number(row?.commits) }
  }

  /**
   * Counts the bytes of the write-ahead log and the size of the databases as written. What checkpoints write does not count,
   * because they write some pages repeatedly, as often as settings say. Postgres updates the number of syncs about once a
   * second.
   */
  async disk(): Promise<DiskWork> {
    const [row] = await this.query<{ wal: string; data: string; syncs: string }>(
      `select pg_current_wal_lsn() - '0/0'::pg_lsn as wal,
        (select sum(pg_database_size(oid)) from pg_database) as data,
        (select sum(fsyncs) from pg_stat_io) as syncs`,
    )
    const walBytes = Number(row?.wal)
    return { writtenBytes: walBytes + Number(row?.data), walBytes, syncs: Number(row?.syncs) }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.end()))
    await this.#cluster.stop()
  }
}

const DEFAULT = 'postgres'
