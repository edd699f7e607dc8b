/** Rows of the audit log, which every store reads alike. */
import type { AuditEntry } from './audit-store.ts'
import { numberOf, type Row, textOf, textOrNull } from './rows.ts'

export const AUDIT_COLUMNS = 'id, at_ms, who, what, account, target, details, outcome'

export function readAuditEntry(row: Row): AuditEntry {
  return {
    id: textOf(row, 'id'),
    atMs: numberOf(row, 'at_ms'),
    who: textOf(row, 'who'),
    what: textOf(row, 'what'),
    account: textOrNull(row, 'account'),
    target: textOrNull(row, 'target'),
    detailsJson: textOf(row, 'details'),
    outcome: textOrNull(row, 'outcome'),
  }
}
