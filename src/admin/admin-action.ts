/** What an operator does to the service: the same object for the admin API and for commands. */
import type { NewAuditEntry } from '../store/audit-store.ts'

/** The audit log records everything except `run` and `describe`, so none of it may contain contents or secrets. */
export interface AdminAction<T> extends Pick<NewAuditEntry, 'what'>, Partial<Pick<NewAuditEntry, 'account'>> {
  /** The job or the key. */
  readonly target?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly run: () => Promise<T>
  /** The outcome in a few words, for the audit log. */
  readonly describe: (result: T) => string
}
