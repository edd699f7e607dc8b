/**
 * Opens real databases for simulated histories: a SQLite file on disk, or a schema of a real Postgres. Each history gets an
 * empty one. The world sets the clock of Postgres, by which leases expire: the schema that its connections search first
 * contains a function that replaces Postgres's own clock.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { administer, uniqueName, urlOfSchema } from '../postgres/database.ts'

const RETENTION_MS = 7 * 86_400_000
const MAX_QUEUED = 100_000

export interface RealStore {
  readonly store: Store
  readonly setClock: (ms: number) => Promise<void>
  readonly close: () => Promise<void>
}

export interface RealStores {
  readonly shared: boolean
  /**
   * Opens an empty database. Only one may be open at a time.
   * @param nowMs returns the time of the database's clock in Unix milliseconds
   */
  readonly open: (nowMs: () => number) => Promise<RealStore>
  readonly close: () => Promise<void>
}

export async function sqliteStores(): Promise<RealStores> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-simulation-'))
  let opened = 0
  const open = async (nowMs: () => number): Promise<RealStore> => {
    opened += 1
    const file = join(folder, String(opened))
    const onFatal = (error: Error) => {
      throw error
    }
    const store = await openSqliteStore({ path: join(file, 'p.db'), maxQueued: MAX_QUEUED, nowMs, onFatal })
    const close = async () => {
      await store.close()
      await rm(file, { recursive: true })
    }
    return { store, setClock: async () => {}, close }
  }
  return { shared: false, open, close: () => rm(folder, { recursive: true }) }
}

export async function postgresStores(): Promise<RealStores> {
  const schema = uniqueName()
  await administer(`create schema ${schema}`)
  await administer(`create table ${schema}.simulated_clock as select pg_catalog.clock_timestamp() as at`)
  await administer(
    `create function ${schema}.clock_timestamp() returns timestamptz volatile language sql as 'select at from ${schema}.simulated_clock'`,
  )
  const url = withoutFlush(await urlOfSchema(`${schema},pg_catalog`))
  const setClock = async (ms: number) => {
    await administer(`update ${schema}.simulated_clock set at = to_timestamp($1::double precision / 1000)`, [
      ms,
    ])
  }
  const open = async (nowMs: () => number): Promise<RealStore> => {
    const store = await openPostgresStore({
      url,
      node: 'simulation',
      connections: 4,
      prepare: true,
      statementMs: 60_000,
      maxQueued: MAX_QUEUED,
      retentionMs: RETENTION_MS,
      nowMs,
      onNote: () => {},
    })
    await empty(schema)
    await setClock(nowMs())
    return { store, setClock, close: () => store.close() }
  }
  const close = async () => {
    await administer(`drop schema ${schema} cascade`)
  }
  return { shared: true, open, close }
}

/** Histories never cut the database's power, and have thousands of statements. So commits need not wait for the disk. */
function withoutFlush(url: string): string {
  const address = new URL(url)
  address.searchParams.set('options', `${address.searchParams.get('options')} -c synchronous_commit=off`)
  return address.href
}

async function empty(schema: string): Promise<void> {
  const tables = await administer(TABLES, [schema])
  await administer(tables.map(({ table }) => `delete from ${schema}.${table}`).join(';'))
}

const TABLES = `
  select relname as table from pg_class
  where relnamespace = $1::regnamespace and relkind = 'r'
    and relname not in ('schema_version', 'probe', 'simulated_clock')`
