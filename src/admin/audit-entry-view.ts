/** Audit log entries as the admin API and `parley audit --json` return them. Times are Unix seconds. */
import type { AuditEntry } from '../store/audit-store.ts'

export function auditEntryView({ id, atMs, who, what, account, target, detailsJson, outcome }: AuditEntry) {
  const details = JSON.parse(detailsJson) as Readonly<Record<string, unknown>>
  return { id, at: atMs / 1000, who, what, account, target, details, outcome }
}
