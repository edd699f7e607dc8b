/** Opens the store that a database address names. */
import type { AccountStore } from './account-store.ts'
import { openSqliteAccounts } from './sqlite/account-file.ts'
import { openSqliteStore } from './sqlite/sqlite-store.ts'
import type { Store } from './store.ts'

export interface OpenOptions {
  /** Writes that may wait before acceptances are refused. */
  readonly maxQueued: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  readonly onFatal: (error: Error) => void
}

/** For serving: takes the file's lock, brings the schema up to date. */
export function openStore(url: string, options: OpenOptions): Promise<Store> {
  return openSqliteStore({ path: sqlitePath(url), ...options })
}

/** For commands: accounts and keys only, also beside a running server. Brings the schema up to date. */
export function openAccounts(url: string): AccountStore {
  return openSqliteAccounts(sqlitePath(url))
}

/** The file that `sqlite:PATH` names. */
export function sqlitePath(url: string): string {
  if (!url.startsWith('sqlite:')) throw new Error('the database address must be sqlite:PATH')
  return url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '')
}
