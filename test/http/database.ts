/** A second connection to the database of a running Parley on either store: to see what is stored, and to disturb it. */
import { setImmediate } from 'node:timers/promises'
import { isPostgres } from '../../src/store/open.ts'
import type { Lifetime, Parley } from '../parley.ts'
import { openSqlite } from './sqlite-database.ts'

export interface Database {
  jobCount(): Promise<number>
  /** The IDs of the stored jobs, oldest first. */
  jobIds(): Promise<string[]>
  /** The stored callback of each job, oldest job first; null for a job without one. */
  callbacks(): Promise<unknown[]>
  /** The callbacks that are owed, and those that were. */
  owed(): Promise<Owed[]>
  /** The metadata stored with each answer, as JSON text. */
  outcomes(): Promise<StoredOutcome[]>
  /** All jobs vanish, including running ones, as if the database had been restored from a backup. */
  deleteJobs(): Promise<void>
  /** Changes every job to what an older version may have stored. */
  setCacheTtl(seconds: number): Promise<void>
  /**
   * Until the returned function is called, outcomes whose content contains the text are rejected; with an empty text, all.
   */
  rejectOutcomes(holding: string): Promise<() => Promise<void>>
  /** Until the returned function is called, jobs cannot be stored. Attempts wait meanwhile. */
  holdWrites(): Promise<() => Promise<void>>
}

export interface Owed {
  readonly jobId: string
  readonly account: string
}

/** The usage of a job that has ended, and what was sent and received. */
export interface StoredOutcome {
  readonly usage: string
  readonly receipt: string
}

export async function openDatabase(t: Lifetime, { database }: Pick<Parley, 'database'>): Promise<Database> {
  if (!isPostgres(database)) return openSqlite(t, database)
  // Loaded only where needed, as in the program.
  const { openPostgres } = await import('./postgres-database.ts')
  return openPostgres(t, database)
}

/** Resolves with the IDs of the stored jobs as soon as there are this many. */
export async function jobsStored(
  t: { signal: AbortSignal },
  database: Database,
  count: number,
): Promise<string[]> {
  for (;;) {
    const ids = await database.jobIds()
    if (ids.length === count) return ids
    t.signal.throwIfAborted()
    // SQLite answers in the same turn of the event loop, but Parley may need turns of its own.
    await setImmediate()
  }
}
