/** What a backup of a database holds, and what became of one that was made or restored. */
import type { Status } from '../job/job.ts'

export interface DatabaseSummary {
  readonly bytes: number
  /** The number of the schema that it was written by. */
  readonly schema: number
  /** Steps that the next start takes to bring it up to date. */
  readonly schemaSteps: number
  readonly accounts: number
  readonly keys: number
  readonly jobs: Readonly<Record<Status, number>>
  readonly callbacksOwed: number
  /** When the job that was accepted last was created; null where there is no job. */
  readonly newestJobAtMs: number | null
}

export interface WriteOptions {
  /** Whether what is there already may be replaced. */
  readonly force: boolean
  /** Once it is aborted, nothing is left behind; the thread that writes ends only with the process. */
  readonly signal: AbortSignal
  /** Called now and then with what has been written so far. */
  readonly onProgress: (bytes: number) => void
}

export interface RestoreOptions extends WriteOptions {
  readonly nowMs: number
}

export interface Restored {
  readonly holdings: DatabaseSummary
  /** Where the database is now that was there before; null where there was none. */
  readonly keptAside: string | null
}
