/** Backups of a database: what one contains, and how it is made and restored. */
import type { Status } from '../job/job.ts'

export interface DatabaseSummary {
  readonly bytes: number
  /** The version of the schema. */
  readonly schema: number
  /** Migrations that the next start applies. */
  readonly schemaSteps: number
  readonly accounts: number
  readonly keys: number
  readonly jobs: Readonly<Record<Status, number>>
  readonly callbacksOwed: number
  /** When the newest job was created; null if there are no jobs. */
  readonly newestJobAtMs: number | null
}

export interface WriteOptions {
  /** Whether an existing file may be replaced. */
  readonly force: boolean
  /** An abort leaves no file behind. The thread that writes is aborted only by ending the process. */
  readonly signal: AbortSignal
  /** Called periodically with the number of bytes written so far. */
  readonly onProgress: (bytes: number) => void
}

export interface RestoreOptions extends WriteOptions {
  readonly nowMs: number
}

export interface Restored {
  readonly summary: DatabaseSummary
  /** The new path of the previous database; null if there was none. */
  readonly keptAside: string | null
}
