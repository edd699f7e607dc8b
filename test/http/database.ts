/**
 * Opens a second connection to the database of a running Parley, on SQLite or Postgres. Tests use it to see what is stored and
 * to disturb the database.
 */
import { setImmediate } from 'node:timers/promises'
import { isPostgres } from '../../src/store/open.ts'
import type { Lifetime, Parley } from '../parley.ts'
import { openSqlite } from './sqlite-database.ts'

export interface Database {
  jobCount(): Promise<number>
  jobIds(): Promise<string[]>
  /** A job without a callback gets null. */
  callbacks(): Promise<unknown[]>
  /** Includes callbacks that have been delivered or have failed permanently. */
  owed(): Promise<Owed[]>
  outcomes(): Promise<StoredOutcome[]>
  /** Deletes all jobs, including running ones, as if somebody had restored an older backup. */
  deleteJobs(): Promise<void>
  /** Older versions may have stored cache times that this version rejects. */
  setCacheTtl(seconds: number): Promise<void>
  /**
   * The database rejects outcomes whose content contains the text, or all outcomes if the text is empty, until the returned
   * function is called.
   */
  rejectOutcomes(holding: string): Promise<() => Promise<void>>
  /** Writes of jobs wait until the returned function is called. */
  holdWrites(): Promise<() => Promise<void>>
}

export interface Owed {
  readonly jobId: string
  readonly account: string
}

export interface StoredOutcome {
  readonly usage: string
  readonly receipt: string
}

export async function openDatabase(t: Lifetime, { database }: Pick<Parley, 'database'>): Promise<Database> {
  if (!isPostgres(database)) return openSqlite(t, database)
  // This import runs only if needed, so that tests on SQLite run without the Postgres driver, as Parley does.
  const { openPostgres } = await import('./postgres-database.ts')
  return openPostgres(t, database)
}

export async function jobsStored(
  t: { signal: AbortSignal },
  database: Database,
  count: number,
): Promise<string[]> {
  for (;;) {
    const ids = await database.jobIds()
    if (ids.length === count) return ids
    t.signal.throwIfAborted()
    // SQLite answers in the same turn of the event loop. Without this pause, Parley would get no turn.
    await setImmediate()
  }
}
