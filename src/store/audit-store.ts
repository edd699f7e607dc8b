/**
 * Who did what to the service. An act is noted before it is done and ended after it, so that none is missing; one without
 * an outcome was cut off. Entries are never changed otherwise, and never deleted.
 */

export interface AuditStore {
  addAuditEntry(act: NewAuditEntry): Promise<void>

  /** Says what came of it. */
  endAuditEntry(actId: string, outcome: string): Promise<void>

  /** Newest first. */
  listAuditEntries(search: AuditSearch): Promise<AuditEntry[]>
}

export interface NewAuditEntry {
  /** UUIDv7: acts lie in the order of time. */
  readonly id: string
  readonly atMs: number
  /** Such as `root@db1 (command line)` or `alice from 10.0.0.7 (admin API)`. */
  readonly who: string
  /** Such as `cancel a job`. */
  readonly what: string
  /** The account that it was done to, where it was one's. */
  readonly account: string | null
  /** The job or key, where it was one. */
  readonly target: string | null
  /** JSON text; never contents or secrets. */
  readonly detailsJson: string
}

export interface AuditEntry extends NewAuditEntry {
  /** Null while it is under way, and for ever where it was cut off. */
  readonly outcome: string | null
}

export interface AuditSearch {
  readonly account?: string
  readonly beforeEntryId?: string
  readonly limit: number
}
