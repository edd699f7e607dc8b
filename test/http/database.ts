/**
 * A second connection to the database of a running Parley, whichever store it has: to see what is stored, and to disturb
 * it.
 */
import { setImmediate } from 'node:timers/promises'
import { isPostgres } from '../../src/store/open.ts'
import type { Lifetime, Parley } from '../parley.ts'
import { openSqlite } from './sqlite-database.ts'

export interface Database {
  jobCount(): Promise<number>
  /** The identifiers of the stored jobs, oldest first. */
  jobIds(): Promise<string[]>
  /** What is stored of each job's callback, oldest job first; null for one without. */
  callbacks(): Promise<unknown[]>
  /** The callbacks that are owed or were. */
  owed(): Promise<Owed[]>
  /** What is stored next to each answer, as JSON text. */
  outcomes(): Promise<StoredOutcome[]>
  /** All jobs vanish, those that run too, as under a database that was put back from a copy. */
  deleteJobs(): Promise<void>
  /** As an older version may have stored it, for every job. */
  setCacheTtl(seconds: number): Promise<void>
  /** Until the returned function is called, each outcome whose content holds the text is rejected; for an empty text, each. */
  rejectOutcomes(holding: string): Promise<() => Promise<void>>
  /** Until the returned function is called, no job can be stored. What is tried meanwhile waits. */
  holdWrites(): Promise<() => Promise<void>>
}

export interface Owed {
  readonly jobId: string
  readonly account: string
}

/** Of a job that has ended: what it used, and what was sent and came back. */
export interface StoredOutcome {
  readonly usage: string
  readonly receipt: string
}

export async function openDatabase(t: Lifetime, { database }: Pick<Parley, 'database'>): Promise<Database> {
  if (!isPostgres(database)) return openSqlite(t, database)
  // Loaded only where it is needed, as in the program.
  const { openPostgres } = await import('./postgres-database.ts')
  return openPostgres(t, database)
}

/** Resolves with the identifiers of the stored jobs as soon as there are so many. */
export async function jobsStored(
  t: { signal: AbortSignal },
  database: Database,
  count: number,
): Promise<string[]> {
  for (;;) {
    const ids = await database.jobIds()
    if (ids.length === count) return ids
    t.signal.throwIfAborted()
    // SQLite answers without a turn of the event loop, in which Parley may have its own to do.
    await setImmediate()
  }
}
