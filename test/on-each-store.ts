/**
 * Declares the tests of a file once for each store, SQLite and Postgres. Every Parley that these tests start keeps its jobs in
 * that store.
 *
 * ```ts
 * onEachStore(() => {
 *   test('a job is read', async (t) => {
 *     const parley = await startParley(t)   // "on SQLite > a job is read", "on Postgres > a job is read"
 *   })
 * })
 * ```
 *
 * `TEST_STORE=sqlite` or `TEST_STORE=postgres` in the environment selects one store.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { join } from 'node:path'
import { describe } from 'node:test'
import type { Lifetime } from './parley.ts'
import { makeEmptyFile } from './support/empty-file.ts'
import { LONG } from './support/long-form.ts'

interface StoreForTests {
  readonly name: string
  /**
   * The same folder always gets the same URL.
   * @param nowMs the test's time in Unix milliseconds
   */
  databaseUrl(t: Lifetime, folder: string, nowMs: number): Promise<string>
}

const SQLITE: StoreForTests = {
  name: 'SQLite',
  databaseUrl: async (_t, folder) => {
    const file = join(folder, 'parley.db')
    makeEmptyFile(file)
    return `sqlite:${file}`
  },
}

const schemas = new Map<string, Promise<string>>()

const POSTGRES: StoreForTests = {
  name: 'Postgres',
  databaseUrl: async (t, folder, nowMs) => {
    // This import runs only if needed, so that tests on SQLite run without the Postgres driver, as Parley does.
    const { emptyTables } = await import('./postgres/emptied-schemas.ts')
    const schema = schemas.get(folder) ?? emptyTables(t, nowMs)
    schemas.set(folder, schema)
    return await schema
  },
}

const STORES: Readonly<Record<string, StoreForTests>> = { sqlite: SQLITE, postgres: POSTGRES }

/** All suites of a file are declared at the same time, so the store depends on the asynchronous context. */
const current = new AsyncLocalStorage<StoreForTests>()

export function onEachStore(declareTests: () => void | Promise<void>): void {
  declareOn(selectedStores(Object.values(STORES)), declareTests)
}

/**
 * Declares tests whose results do not depend on the store, such as those of the client. They run on Postgres only in the long
 * form, or if `TEST_STORE` selects it.
 */
export function onAnyStore(declareTests: () => void | Promise<void>): void {
  declareOn(selectedStores(LONG ? Object.values(STORES) : [SQLITE]), declareTests)
}

function declareOn(stores: readonly StoreForTests[], declareTests: () => void | Promise<void>): void {
  for (const store of stores) {
    // `describe` waits for a promise, although its types do not allow one.
    void describe(`on ${store.name}`, () => current.run(store, declareTests))
  }
}

/**
 * Returns the URL of a database in the store of the test. Tests outside `onEachStore` use SQLite.
 * @param nowMs the test's time in Unix milliseconds
 */
export function databaseUrl(t: Lifetime, folder: string, nowMs: number): Promise<string> {
  return (current.getStore() ?? SQLITE).databaseUrl(t, folder, nowMs)
}

export function storeName(): string {
  return (current.getStore() ?? SQLITE).name
}

function selectedStores(usual: readonly StoreForTests[]): readonly StoreForTests[] {
  const name = process.env.TEST_STORE
  if (!name) return usual
  const store = STORES[name]
  if (!store) throw new Error(`TEST_STORE is ${name}: it must be one of ${Object.keys(STORES).join(', ')}`)
  return [store]
}
