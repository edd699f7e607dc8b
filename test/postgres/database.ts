/**
 * Creates an empty schema or database in Postgres for one test: in the database of TEST_DATABASE_URL if that is set, otherwise
 * in the cluster of the test run. A file that runs alone starts a cluster that lives as long as the process.
 *
 * ```ts
 * const url = await freshDatabase(t)       // quick: a separate schema
 * const url = await freshRealDatabase(t)   // also has its own notifications and advisory locks
 * ```
 */
import { after } from 'node:test'
import { Pool } from 'pg'
import type { Lifetime } from '../parley.ts'
import { startCluster } from './cluster.ts'

/** global-setup.ts sets this environment variable to the URL of its cluster. */
export const CLUSTER = 'PARLEY_TEST_POSTGRES'

/**
 * All connections with the returned URL use the same new schema. Notifications and advisory locks belong to the whole database,
 * so those of other tests are visible.
 */
export async function freshDatabase(t: Lifetime): Promise<string> {
  const schema = uniqueName()
  await administer(`create schema ${schema}`)
  afterAllElse(t, () => administer(`drop schema ${schema} cascade`))
  return urlOfSchema(schema)
}

export async function urlOfSchema(schema: string): Promise<string> {
  const url = new URL(await sharedUrl())
  const options = [url.searchParams.get('options'), `-c search_path=${schema}`].filter(Boolean).join(' ')
  url.searchParams.delete('options')
  // `searchParams` would write a space as `+`, which not every client decodes.
  url.search += `${url.search ? '&' : '?'}options=${encodeURIComponent(options)}`
  return url.href
}

export async function freshRealDatabase(t: Lifetime): Promise<string> {
  const database = uniqueName()
  await administer(`create database ${database} template template0 encoding 'UTF8' locale 'C'`)
  afterAllElse(t, () => administer(`drop database ${database} with (force)`))
  const url = new URL(await sharedUrl())
  url.pathname = `/${database}`
  return url.href
}

let started: Promise<string> | undefined

function sharedUrl(): Promise<string> {
  const given = process.env.TEST_DATABASE_URL || process.env[CLUSTER]
  // The watcher stops the cluster when this process has ended.
  started ??= given ? Promise.resolve(given) : startCluster().then((cluster) => cluster.url())
  return started
}

export function uniqueName(): string {
  return `parley_test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`
}

let connections: Promise<Pool> | undefined

/**
 * Runs a statement on a pool of connections, because opening one costs more than most statements. Fails if the statement must
 * wait long for a session that a test has left open.
 */
export async function administer(
  statement: string,
  values: readonly unknown[] = [],
): Promise<Record<string, unknown>[]> {
  connections ??= connect()
  const pool = await connections
  return (await pool.query<Record<string, unknown>>(statement, [...values])).rows
}

async function connect(): Promise<Pool> {
  const connectionString = await sharedUrl()
  const pool = new Pool({
    connectionString,
    max: 3,
    idleTimeoutMillis: 0,
    // Idle connections must not keep the process alive.
    allowExitOnIdle: true,
    lock_timeout: 20_000,
  })
  // If an idle connection breaks, the pool opens a new one.
  pool.on('error', () => {})
  return pool
}

/**
 * Runs `end` after all other hooks. Hooks run in the order in which they were added, and whatever uses the database adds its
 * hooks later. A hook that a test's hook adds runs last. In a file, such a hook would run at once, so `end` runs when the
 * process ends.
 */
export function afterAllElse(t: Lifetime, end: () => Promise<unknown>): void {
  if (t.after === after) process.once('beforeExit', () => void end())
  else t.after(() => t.after(end))
}
