/**
 * Who did what to the service. An act is noted before it is done and ended after it, so that none is missing; one without
 * an outcome was cut off. Entries are never changed otherwise, and never deleted.
 */

export interface AuditStore {
  noteAct(act: NewAct): Promise<void>

  /** Says what came of it. */
  endAct(actId: string, outcome: string): Promise<void>

  /** Newest first. */
  listActs(search: ActSearch): Promise<Act[]>
}

export interface NewAct {
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

export interface Act extends NewAct {
  /** Null while it is under way, and for ever where it was cut off. */
  readonly outcome: string | null
}

export interface ActSearch {
  readonly account?: string
  readonly beforeActId?: string
  readonly limit: number
}
