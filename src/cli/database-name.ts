/** A database's address as it may be printed. */
import { isPostgres, sqlitePath } from '../store/open.ts'

/** Without user and password, and without options, which may hold one too. */
export function databaseName(address: string): string {
  if (!isPostgres(address)) return `sqlite:${sqlitePath(address)}`
  const { host, pathname } = new URL(address)
  return `postgres://${host}${pathname}`
}
