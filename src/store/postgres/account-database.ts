/** Accounts and keys straight from the database, for commands beside running servers. */
import type { AccountStore } from '../account-store.ts'
import { PostgresAccounts } from './accounts.ts'
import { Database } from './database.ts'
import { migratePostgres } from './schema.ts'

/** A command's statements are short, but its user may wait for a lock. */
const COMMAND_MS = 30_000

export async function openPostgresAccounts(url: string): Promise<AccountStore> {
  await migratePostgres(url)
  return new PostgresAccounts(new Database({ url, connections: 1, prepare: false, statementMs: COMMAND_MS }))
}
