/** Runs what commands do directly on a Postgres database, even while servers are running. */
import type { Secrets } from '../account-store.ts'
import type { OperatorStore } from '../operator-store.ts'
import { sharedOperatorOperations, withSearches } from '../shared-operations.ts'
import { Database, methodsOn } from './database.ts'
import { deletionOperations } from './delete.ts'
import { POSTGRES } from './dialect.ts'
import { migratePostgres } from './schema.ts'

const SHARED = sharedOperatorOperations(POSTGRES)

/** Each statement of a command may take this long, because it may have to wait for a lock. */
const COMMAND_MS = 30_000
const LOOK_UP_MS = 5000

export async function openPostgresForOperator(url: string): Promise<OperatorStore> {
  await migratePostgres(url)
  const database = new Database({ url, connections: 1, prepare: false, statementMs: COMMAND_MS })
  return { ...operatorOperations(database, url), close: () => database.close() }
}

export function operatorOperations(database: Database, url: string) {
  return {
    ...withSearches(POSTGRES, methodsOn(database, SHARED)),
    ...deletionOperations(database, url),
  }
}

export async function lookUpSecretsInPostgres(url: string, account: string): Promise<Secrets | null> {
  const database = new Database({ url, connections: 1, prepare: false, statementMs: LOOK_UP_MS })
  try {
    return await methodsOn(database, SHARED).secrets(account)
  } finally {
    await database.close()
  }
}
