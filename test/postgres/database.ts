/**
 * Creates a fresh, empty place in Postgres for one test: in the database that TEST_DATABASE_URL names, else in the cluster of
 * the run, else, for a file that runs by itself, in a cluster that lasts as long as this process.
 *
 * ```ts
 * const url = await freshDatabase(t)       // quick: a schema of its own
 * const url = await freshRealDatabase(t)   // alone with its notifications and advisory locks, too
 * ```
 */
import { after } from 'node:test'
import { Pool } from 'pg'
import type { Lifetime } from '../parley.ts'
import { startCluster } from './cluster.ts'

/** The URL of the cluster that global-setup.ts has started. */
export const CLUSTER = 'PARLEY_TEST_POSTGRES'

/**
 * Creates a separate schema, which every connection with this URL uses. The database shares notifications and advisory locks, so
 * those of other tests are visible.
 */
export async function freshDatabase(t: Lifetime): Promise<string> {
  const schema = uniqueName()
  await administer(`create schema ${schema}`)
  afterAllElse(t, () => administer(`drop schema ${schema} cascade`))
  return urlOfSchema(schema)
}

/** Returns a URL whose connections use the schema. */
export async function urlOfSchema(schema: string): Promise<string> {
  const url = new URL(await sharedUrl())
  const options = [url.searchParams.get('options'), `-c search_path=${schema}`].filter(Boolean).join(' ')
  url.searchParams.delete('options')
  // `searchParams` would write a space as a plus, which not every client decodes as a space.
  url.search += `${url.search ? '&' : '?'}options=${encodeURIComponent(options)}`
  return url.href
}

/** Creates a separate database. Connections that are open at the end of the test are closed. */
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
  // The cluster's watcher stops it when this process has ended.
  started ??= given ? Promise.resolve(given) : startCluster().then((cluster) => cluster.url())
  return started
}

export function uniqueName(): string {
  return `parley_test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`
}

let connections: Promise<Pool> | undefined

/**
 * Runs a statement outside of the tests, on connections that the process keeps: opening one costs more than most statements.
 * A statement that waits for a session that a test has left open fails.
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
    // Idle connections do not keep the process alive.
    allowExitOnIdle: true,
    lock_timeout: 20_000,
  })
  // A connection that breaks while idle is replaced.
  pool.on('error', () => {})
  return pool
}

/**
 * Runs `end` after all other hooks. Hooks run in the order of their registration, and whatever uses the database is registered
 * later; a hook that another hook of a test registers runs last. That of a file would run at once, so the end of the process is
 * awaited instead.
 */
export function afterAllElse(t: Lifetime, end: () => Promise<unknown>): void {
  if (t.after === after) process.once('beforeExit', () => void end())
  else t.after(() => t.after(end))
}
