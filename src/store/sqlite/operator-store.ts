/**
 * Runs the admin actions of commands on a SQLite file. It needs neither the lock nor the storage thread, so a server may be
 * running.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Secrets } from '../account-store.ts'
import type { OperatorStore } from '../operator-store.ts'
import { withSearches } from '../shared-operations.ts'
import { SQLITE } from './dialect.ts'
import { MIGRATIONS } from './migrations.ts'
import { OpenFile } from './open-file.ts'
import { BUSY_TIMEOUT_MS, checkFolder, openFile } from './opening.ts'
import { type Args, methodsOf, type OperatorName, operatorOperations, type Result } from './operations.ts'
import { migrate, newerSchema, schemaVersion } from './schema.ts'

export function openSqliteForOperator(path: string): OperatorStore {
  const db = openFile(path)
  migrate(db)
  const file = new OpenFile(db)
  const call = async <N extends OperatorName>(name: N, args: Args<N>): Promise<Result<N>> => {
    const { kind, run } = operatorOperations[name]
    // Each write is a short transaction, so that a server hardly waits for it.
    return kind === 'read' ? run(file, ...args) : file.transaction(() => run(file, ...args))
  }
  return { ...withSearches(SQLITE, methodsOf(operatorOperations, call)), close: async () => db.close() }
}

/**
 * Describes the state of the file for the operator. This neither creates the file nor migrates it, because a server of an
 * earlier version may be using it.
 */
export function checkFile(path: string): string {
  if (!existsSync(path)) {
    checkFolder(path)
    return 'does not exist yet, and the first start creates it'
  }
  const db = openFile(path)
  try {
    const version = schemaVersion(db)
    if (version > MIGRATIONS.length) throw newerSchema(version)
    if (version === 0) return 'opens, and the first start creates its tables'
    if (version < MIGRATIONS.length) return 'opens, and the next start upgrades it'
    return operatorOperations.hasAccounts.run(new OpenFile(db)) ? 'opens' : 'opens, and has no account yet'
  } finally {
    db.close()
  }
}

export function lookUpSecretsInFile(path: string, account: string): Secrets | null {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  try {
    return operatorOperations.secrets.run(new OpenFile(db), account)
  } finally {
    db.close()
  }
}
