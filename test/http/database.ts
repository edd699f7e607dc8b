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
  /** Returns the IDs of the stored jobs, oldest first. */
  jobIds(): Promise<string[]>
  /** Returns the stored callback of each job, oldest job first; null for a job without a callback. */
  callbacks(): Promise<unknown[]>
  /** Returns the callbacks that are still to be delivered, and those that have ended. */
  owed(): Promise<Owed[]>
  /** Returns the usage and the receipt stored with each answer, as JSON texts. */
  outcomes(): Promise<StoredOutcome[]>
  /** Deletes all jobs, including running ones, as if the database had been restored from a backup. */
  deleteJobs(): Promise<void>
  /** Sets the cache time of every stored job, to values that only older versions may have stored. */
  setCacheTtl(seconds: number): Promise<void>
  /**
   * Lets the database reject outcomes whose content contains the text (all outcomes if the text is empty). The returned
   * function ends this.
   */
  rejectOutcomes(holding: string): Promise<() => Promise<void>>
  /** Blocks writes of jobs, which wait in the meantime. The returned function ends this. */
  holdWrites(): Promise<() => Promise<void>>
}

export interface Owed {
  readonly jobId: string
  readonly account: string
}

/** The usage of an ended job, and the receipt of what was sent and received, as JSON texts. */
export interface StoredOutcome {
  readonly usage: string
  readonly receipt: string
}

export async function openDatabase(t: Lifetime, { database }: Pick<Parley, 'database'>): Promise<Database> {
  if (!isPostgres(database)) return openSqlite(t, database)
  // Loaded only if needed, so that tests on SQLite run without the Postgres driver, as Parley does.
  const { openPostgres } = await import('./postgres-database.ts')
  return openPostgres(t, database)
}

/** Resolves with the IDs of the stored jobs, once there are this many. */
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
