/** Opens the store that a database address names: `sqlite:PATH` for one node, `postgres://…` for many. */
import type { Secrets } from './account-store.ts'
import type { DatabaseSummary, Restored, RestoreOptions, WriteOptions } from './backup.ts'
import type { DatabaseCheck } from './database-check.ts'
import type { OperatorStore } from './operator-store.ts'
import { lookUpSecretsInFile, openSqliteForOperator } from './sqlite/operator-store.ts'
import { openSqliteStore } from './sqlite/sqlite-store.ts'
import type { Store } from './store.ts'
import type { TargetOptions, TransferSource, TransferTarget } from './transfer-contract.ts'

export interface OpenOptions {
  /** Who opens it: what other nodes tell this one is sent to that name. */
  readonly node: string
  /** Connections of this node to a Postgres. */
  readonly connections: number
  /** Whether statements on a Postgres are prepared by name. */
  readonly prepare: boolean
  /** After which a statement on a Postgres is ended. */
  readonly statementMs: number
  /** Writes that may wait before acceptances are refused. */
  readonly maxQueued: number
  readonly retentionMs: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  /** What the operator should know of the database, and that does not stop the start. */
  readonly onNote: (message: string) => void
  readonly onFatal: (error: Error) => void
}

/** For serving: brings the schema up to date; takes the lock of a SQLite file. */
export async function openStore(url: string, options: OpenOptions): Promise<Store> {
  if (!isPostgres(url)) return openSqliteStore({ path: sqlitePath(url), ...options })
  // Loaded only where it is needed: it would be a tenth of the time to start.
  const { openPostgresStore } = await import('./postgres/postgres-store.ts')
  return openPostgresStore({ url, ...options })
}

/** For commands, also beside a running server. Brings the schema up to date. */
export async function openForOperator(url: string): Promise<OperatorStore> {
  if (!isPostgres(url)) return openSqliteForOperator(sqlitePath(url))
  const { openPostgresForOperator } = await import('./postgres/operator-store.ts')
  return openPostgresForOperator(url)
}

/** An account's secrets, without changing anything: not even the schema is brought up to date. */
export async function lookUpSecrets(url: string, account: string): Promise<Secrets | null> {
  if (!isPostgres(url)) return lookUpSecretsInFile(sqlitePath(url), account)
  const { lookUpSecretsInPostgres } = await import('./postgres/operator-store.ts')
  return lookUpSecretsInPostgres(url, account)
}

/** Brings the schema up to date, and nothing else. Returns how many steps were taken. */
export async function migrateDatabase(url: string): Promise<number> {
  if (isPostgres(url)) {
    const { migratePostgres } = await import('./postgres/schema.ts')
    return migratePostgres(url)
  }
  const { migrateFile } = await import('./sqlite/schema.ts')
  return migrateFile(sqlitePath(url))
}

/** Finds out whether the database is fit to serve from. Rejects where it cannot be reached at all. */
export async function checkDatabase(url: string): Promise<DatabaseCheck> {
  if (isPostgres(url)) {
    const { checkPostgres } = await import('./postgres/check.ts')
    return checkPostgres(url)
  }
  const store = await openForOperator(url)
  const some = await store.hasAccounts()
  await store.close()
  return { says: some ? `${url} opens` : `${url} opens, and has no account yet`, problems: [], warnings: [] }
}

/** For a copy: what it reads, held for it alone. Rejects with a `DatabaseProblem` where a server uses it. */
export async function openTransferSource(url: string): Promise<TransferSource> {
  if (isPostgres(url)) {
    const { openPostgresSource } = await import('./postgres/transfer-source.ts')
    return openPostgresSource(url)
  }
  const { openSqliteSource } = await import('./sqlite/transfer-source.ts')
  return openSqliteSource(sqlitePath(url))
}

/** For a copy: what it fills, with its schema up to date. Rejects with a `DatabaseProblem` unless it is empty and unused. */
export async function openTransferTarget(url: string, options: TargetOptions): Promise<TransferTarget> {
  if (isPostgres(url)) {
    const { openPostgresTarget } = await import('./postgres/transfer-target.ts')
    return openPostgresTarget(url, options)
  }
  const { openSqliteTarget } = await import('./sqlite/transfer-target.ts')
  return openSqliteTarget(sqlitePath(url))
}

/** Into a file, beside running servers. Of SQLite only: a Postgres has tools of its own for it. */
export async function backUpDatabase(
  url: string,
  target: string,
  options: WriteOptions,
): Promise<DatabaseSummary> {
  const { backUpFile } = await import('./sqlite/backup.ts')
  return backUpFile(sqlitePath(url), target, options)
}

/** Puts a backup in the database's place. Rejects with a `DatabaseProblem` where a server uses it. */
export async function restoreDatabase(
  url: string,
  backup: string,
  options: RestoreOptions,
): Promise<Restored> {
  const { restoreFile } = await import('./sqlite/restore.ts')
  return restoreFile(backup, sqlitePath(url), options)
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url)
}

/** The file that `sqlite:PATH` names. */
export function sqlitePath(url: string): string {
  if (!url.startsWith('sqlite:')) throw new Error('the database address must be sqlite:PATH or postgres://…')
  return url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '')
}
