/** A database URL that is safe to print. */
import { isPostgres, sqlitePath } from '../store/open.ts'

/** Without user, password and options, because options can contain a password too. */
export function databaseName(address: string): string {
  if (!isPostgres(address)) return `sqlite:${sqlitePath(address)}`
  const { host, pathname } = new URL(address)
  return `postgres://${host}${pathname}`
}
