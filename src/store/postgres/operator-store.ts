/** Admin actions of commands directly on a Postgres database, also while servers are running. */
import type { Secrets } from '../account-store.ts'
import type { OperatorStore } from '../operator-store.ts'
import { accountOperations } from './accounts.ts'
import { auditOperations } from './audit.ts'
import { callbackReplayOperations } from './callback-replay.ts'
import { callbackSearchOperations } from './callback-search.ts'
import { cancelOperations } from './cancel.ts'
import { Database } from './database.ts'
import { deleteOperations } from './delete.ts'
import { jobSearchOperations } from './job-search.ts'
import { quotaOperations } from './quotas.ts'
import { migratePostgres } from './schema.ts'
import { scrubOperations } from './scrub.ts'
import { usageOperations } from './usage.ts'

/** A command's statements are short, but its user may wait for a lock. */
const COMMAND_MS = 30_000
const LOOK_UP_MS = 5000

export async function openPostgresForOperator(url: string): Promise<OperatorStore> {
  await migratePostgres(url)
  const database = new Database({ url, connections: 1, prepare: false, statementMs: COMMAND_MS })
  return { ...operatorOperations(database, url), close: () => database.close() }
}

/** Shared with nodes. */
export function operatorOperations(database: Database, url: string): Omit<OperatorStore, 'close'> {
  return {
    ...accountOperations(database),
    ...auditOperations(database),
    ...callbackReplayOperations(database),
    ...callbackSearchOperations(database),
    ...cancelOperations(database),
    ...deleteOperations(database),
    ...jobSearchOperations(database),
    ...quotaOperations(database),
    ...scrubOperations(url),
    ...usageOperations(database),
  }
}

export async function lookUpSecretsInPostgres(url: string, account: string): Promise<Secrets | null> {
  const database = new Database({ url, connections: 1, prepare: false, statementMs: LOOK_UP_MS })
  try {
    return await accountOperations(database).secrets(account)
  } finally {
    await database.close()
  }
}
