/**
 * The audit log: who did what to the service. An entry is added before the admin action and ended after it, so that none is
 * missing; an entry without an outcome was interrupted. Entries are never changed otherwise, and never deleted.
 */

export interface AuditStore {
  /** Durable before the action begins. A second call with the same entry changes nothing. */
  addAuditEntry(entry: NewAuditEntry): Promise<void>

  /** Stores the outcome of the action. A second call replaces it; an unknown entry is ignored. */
  endAuditEntry(entryId: string, outcome: string): Promise<void>

  /** Newest first. */
  listAuditEntries(search: AuditSearch): Promise<AuditEntry[]>
}

interface AuditFields {
  /** UUIDv7: entries lie in the order of time. */
  readonly id: string
  readonly atMs: number
  /** Such as `root@db1 (command line)` or `alice from 10.0.0.7 (admin API)`. */
  readonly who: string
  /** Such as `cancel a job`. */
  readonly what: string
  /** The job or key that the action was about, if any. */
  readonly target: string | null
  /** JSON text; never contents or secrets. */
  readonly detailsJson: string
}

export interface NewAuditEntry extends AuditFields {
  readonly account: string | AccountOfJob | AccountOfBatch | null
}

/** The account of a job, which the store looks up in the statement that adds the entry; null if the job does not exist. */
export interface AccountOfJob {
  readonly ofJob: string
}

/** The same of a batch. */
export interface AccountOfBatch {
  readonly ofBatch: string
}

export interface AuditEntry extends AuditFields {
  /** The account that the action was about, if any. */
  readonly account: string | null
  /** Null while the action is in progress, and permanently if it was interrupted. */
  readonly outcome: string | null
}

export interface AuditSearch {
  readonly account?: string
  /** Only entries before this one, the last of the previous page. */
  readonly beforeEntryId?: string
  readonly limit: number
}
