/** What operators do straight in the database, beside running servers. */
import type { Secrets } from '../account-store.ts'
import type { OperatorStore } from '../operator-store.ts'
import { PostgresAccounts } from './accounts.ts'
import { Database } from './database.ts'
import { PostgresOperations } from './operations.ts'
import { migratePostgres } from './schema.ts'

/** A command's statements are short, but its user may wait for a lock. */
const COMMAND_MS = 30_000
const LOOK_MS = 5000

export async function openPostgresForOperator(url: string): Promise<OperatorStore> {
  await migratePostgres(url)
  const database = new Database({ url, connections: 1, prepare: false, statementMs: COMMAND_MS })
  return new PostgresOperations(database, url)
}

export async function lookUpSecretsInPostgres(url: string, account: string): Promise<Secrets | null> {
  const database = new Database({ url, connections: 1, prepare: false, statementMs: LOOK_MS })
  try {
    return await new PostgresAccounts(database).secrets(account)
  } finally {
    await database.close()
  }
}
