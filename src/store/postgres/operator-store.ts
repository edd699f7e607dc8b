/** Runs the admin actions of commands directly on a Postgres database, also while servers are running. */
import type { Secrets } from '../account-store.ts'
import { accountOperations } from '../accounts.ts'
import { auditOperations } from '../audit.ts'
import { batchOperations } from '../batches.ts'
import { callbackRecordOperations } from '../callback-records.ts'
import { cancelOperations } from '../cancel.ts'
import { deleteOperations } from '../delete.ts'
import { fileOperations } from '../files.ts'
import { jobSearchOperations } from '../job-search.ts'
import { adminTokenOperations, keyOperations } from '../keys.ts'
import type { OperatorStore } from '../operator-store.ts'
import { rerunOperations } from '../reruns.ts'
import { withSearches } from '../searches.ts'
import { usageOperations } from '../usage.ts'
import { Database, methodsOn } from './database.ts'
import { deletionOperations } from './delete.ts'
import { POSTGRES } from './dialect.ts'
import { migratePostgres } from './schema.ts'

const SHARED = {
  ...accountOperations(POSTGRES),
  ...adminTokenOperations,
  ...auditOperations,
  ...batchOperations(POSTGRES),
  ...callbackRecordOperations(POSTGRES),
  ...cancelOperations(POSTGRES),
  ...deleteOperations(POSTGRES),
  ...fileOperations(POSTGRES),
  ...jobSearchOperations(POSTGRES),
  ...keyOperations(POSTGRES),
  ...rerunOperations(POSTGRES),
  ...usageOperations(POSTGRES),
}

/** Long for a short statement, because a command may have to wait for a lock. */
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
