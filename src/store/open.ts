/**
 * Opens the database at a URL: `sqlite:PATH` for one node, `postgres://…` for many. Only the code of one store is loaded.
 * Loading both would make the start of a server a tenth longer.
 */
import type { Secrets } from './account-store.ts'
import type { DatabaseCheck } from './database-problem.ts'
import type { Leases } from './node-store.ts'
import type { OperatorStore } from './operator-store.ts'
import type { PostgresStoreOptions } from './postgres/postgres-store.ts'
import type { SqliteStoreOptions } from './sqlite/sqlite-store.ts'
import type { Store } from './store.ts'
import type { TargetOptions, TransferSource, TransferTarget } from './transfer-contract.ts'

export type OpenOptions = Omit<PostgresStoreOptions, 'url'> & Omit<SqliteStoreOptions, 'path'>

/** Migrates the schema, and locks a SQLite file. */
export async function openStore(url: string, options: OpenOptions): Promise<Store> {
  if (!isPostgres(url)) {
    const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
    return openSqliteStore({ path: sqlitePath(url), ...options })
  }
  const { openPostgresStore } = await import('./postgres/postgres-store.ts')
  return openPostgresStore({ url, ...options })
}

/** Only Postgres has leases. */
export async function openLeases(
  url: string,
  options: Pick<OpenOptions, 'prepare' | 'statementMs'>,
): Promise<Leases> {
  const { openPostgresLeases } = await import('./postgres/nodes.ts')
  return openPostgresLeases({ url, ...options })
}

/** Opens the store for commands, even while a server is running. Migrates the schema. */
export async function openForOperator(url: string): Promise<OperatorStore> {
  if (!isPostgres(url)) {
    const { openSqliteForOperator } = await import('./sqlite/operator-store.ts')
    return openSqliteForOperator(sqlitePath(url))
  }
  const { openPostgresForOperator } = await import('./postgres/operator-store.ts')
  return openPostgresForOperator(url)
}

/** Changes nothing, not even the schema. */
export async function lookUpSecrets(url: string, account: string): Promise<Secrets | null> {
  if (!isPostgres(url)) {
    const { lookUpSecretsInFile } = await import('./sqlite/operator-store.ts')
    return lookUpSecretsInFile(sqlitePath(url), account)
  }
  const { lookUpSecretsInPostgres } = await import('./postgres/operator-store.ts')
  return lookUpSecretsInPostgres(url, account)
}

export async function migrateDatabase(url: string): Promise<number> {
  if (isPostgres(url)) {
    const { migratePostgres } = await import('./postgres/schema.ts')
    return migratePostgres(url)
  }
  const { migrateFile } = await import('./sqlite/schema.ts')
  return migrateFile(sqlitePath(url))
}

/** Does not migrate the schema. Rejects if the database is unreachable. */
export async function checkDatabase(url: string): Promise<DatabaseCheck> {
  if (isPostgres(url)) {
    const { checkPostgres } = await import('./postgres/fitness.ts')
    return checkPostgres(url)
  }
  const { checkFile } = await import('./sqlite/operator-store.ts')
  return { description: `${url} ${checkFile(sqlitePath(url))}`, problems: [], warnings: [] }
}

/** Migrates the schema. Rejects with a `DatabaseProblem` if a server uses the database. */
export async function openTransferSource(url: string): Promise<TransferSource> {
  if (isPostgres(url)) {
    const { openPostgresSource } = await import('./postgres/transfer.ts')
    return openPostgresSource(url)
  }
  const { openSqliteSource } = await import('./sqlite/transfer.ts')
  return openSqliteSource(sqlitePath(url))
}

/** Migrates the schema. Rejects with a `DatabaseProblem` if the database is not empty or a server uses it. */
export async function openTransferTarget(url: string, options: TargetOptions): Promise<TransferTarget> {
  if (isPostgres(url)) {
    const { openPostgresTarget } = await import('./postgres/transfer.ts')
    return openPostgresTarget(url, options)
  }
  const { openSqliteTarget } = await import('./sqlite/transfer.ts')
  return openSqliteTarget(sqlitePath(url))
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url)
}

export function sqlitePath(url: string): string {
  if (!url.startsWith('sqlite:')) throw new Error('the database address must be sqlite:PATH or postgres://…')
  return url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '')
}
