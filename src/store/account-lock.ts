/** Makes writes that count what an account has, and then add to it, wait for each other on Postgres. */
import { type Sql, sql } from './sql.ts'

/**
 * Otherwise several writes at the same time would all count the same, and together exceed a limit. It must be a statement of its
 * own: a statement sees only what was committed before it began.
 */
export const lockAccount = (account: string): Sql =>
  sql`update accounts set name = name where name = ${account}`
