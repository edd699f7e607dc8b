/**
 * Declares a test of processes once for each store.
 *
 * ```ts
 * onBothStores((store) => `jobs complete, on ${store}`, async (t, database) => {
 *   const place = await installation(t, { ...database })
 * })
 * ```
 */
import { type TestContext, type TestOptions, test } from 'node:test'
import { freshDatabase, freshRealDatabase } from '../postgres/database.ts'

/** SQLite needs no option, because its file is in the folder of the installation. */
export interface Database {
  readonly databaseUrl?: string
}

interface StoreOptions extends TestOptions {
  /** If true, the test gets its own Postgres database, with its own notifications and locks, instead of a schema. */
  readonly real?: boolean
}

export const STORES = ['SQLite', 'Postgres'] as const

export function onBothStores(
  title: (store: string) => string,
  work: (t: TestContext, database: Database) => Promise<void>,
  { real = false, ...options }: StoreOptions = {},
): void {
  test(title('SQLite'), options, (t) => work(t, {}))
  test(title('Postgres'), options, async (t) => {
    await work(t, { databaseUrl: await (real ? freshRealDatabase(t) : freshDatabase(t)) })
  })
}
