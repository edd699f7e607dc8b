/**
 * The audit log: who did what to the service. An entry is added before its admin action and completed after it, so no action is
 * missing. If an entry has no outcome, its action was interrupted. Nothing else changes entries, and they are never deleted.
 */

export interface AuditStore {
  /** Durable before the action begins. A second call with the same entry changes nothing. */
  addAuditEntry(entry: NewAuditEntry): Promise<void>

  /** Stores the outcome of the action. A second call replaces it; an unknown entry is ignored. */
  endAuditEntry(entryId: string, outcome: string): Promise<void>

  /** Returns entries, newest first. */
  listAuditEntries(search: AuditSearch): Promise<AuditEntry[]>
}

interface AuditFields {
  /** UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly atMs: number
  /** For example `root@db1 (command line)` or `alice from 10.0.0.7 (admin API)`. */
  readonly who: string
  /** For example `cancel a job`. */
  readonly what: string
  /** The job, batch, key or admin token that the action was about, if any. */
  readonly target: string | null
  /** JSON text. It never contains contents of jobs or secrets. */
  readonly detailsJson: string
}

export interface NewAuditEntry extends AuditFields {
  readonly account: string | AccountOf | null
}

/**
 * Names the account through a job, batch or key. The statement that adds the entry looks up the account, and stores null if the
 * job, batch or key does not exist.
 */
export type AccountOf = { readonly ofJob: string } | { readonly ofBatch: string } | { readonly ofKey: string }

export interface AuditEntry extends AuditFields {
  /** The account that the action was about, if any. */
  readonly account: string | null
  /** Null while the action runs, and permanently if it was interrupted. */
  readonly outcome: string | null
}

export interface AuditSearch {
  readonly account?: string
  /** Only entries before this one, the last of the previous page. */
  readonly beforeEntryId?: string
  readonly limit: number
}
