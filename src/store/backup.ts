/** Backups of a database: what one contains, and how it is made and restored. */
import type { Status } from '../job/job.ts'

export interface DatabaseSummary {
  readonly bytes: number
  /** The version of its schema. */
  readonly schema: number
  /** Migrations that the next start applies. */
  readonly schemaSteps: number
  readonly accounts: number
  readonly keys: number
  readonly jobs: Readonly<Record<Status, number>>
  readonly callbacksOwed: number
  /** When the job that was accepted last was created; null if there is no job. */
  readonly newestJobAtMs: number | null
}

export interface WriteOptions {
  /** Whether an existing file may be replaced. */
  readonly force: boolean
  /** Once it is aborted, nothing is left behind; the thread that writes ends only with the process. */
  readonly signal: AbortSignal
  /** Called from time to time with the number of bytes written so far. */
  readonly onProgress: (bytes: number) => void
}

export interface RestoreOptions extends WriteOptions {
  readonly nowMs: number
}

export interface Restored {
  readonly summary: DatabaseSummary
  /** The new path of the database that was there before; null if there was none. */
  readonly keptAside: string | null
}
