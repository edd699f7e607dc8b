/** Opens a second connection to the database of a running Parley on either store, to see what is stored and to disturb it. */
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
  /** Returns the callbacks that are owed, and those that have ended. */
  owed(): Promise<Owed[]>
  /** Returns the metadata stored with each answer, as JSON text. */
  outcomes(): Promise<StoredOutcome[]>
  /** Deletes all jobs, including running ones, as if the database had been restored from a backup. */
  deleteJobs(): Promise<void>
  /** Changes every job to what an older version may have stored. */
  setCacheTtl(seconds: number): Promise<void>
  /** Rejects outcomes whose content contains the text (all if it is empty), until the returned function is called. */
  rejectOutcomes(holding: string): Promise<() => Promise<void>>
  /** Blocks the storage of jobs until the returned function is called. Attempts wait. */
  holdWrites(): Promise<() => Promise<void>>
}

export interface Owed {
  readonly jobId: string
  readonly account: string
}

/** The usage of an ended job, and what was sent and received. */
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
