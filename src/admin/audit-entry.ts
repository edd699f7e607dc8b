/** Defines the entries of the audit log for the admin API, the dashboard and `--json`. Times are Unix seconds. */
import type { AuditEntry as AuditRecord } from '../store/operator-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { anyObject, more, next, orNull, textOrNull, unixTime } from './fields.ts'

const auditEntry = Type.Object({
  id: Type.String(),
  at: unixTime('When the action started'),
  who: Type.String({
    description: 'For example `alice from 10.0.0.7 (admin API)` or `root@db1 (command line)`.',
  }),
  what: Type.String({ description: 'For example `cancel a job`.' }),
  account: orNull(Type.String()),
  target: textOrNull('The ID of the job, batch, key or admin token that the action was about, if any.'),
  details: anyObject('Never includes job contents or secrets.'),
  outcome: textOrNull(
    'The result. Null while the action is in progress, and also if its process was killed.',
  ),
})
export type AuditEntry = Static<typeof auditEntry>

/** The field `acts` contains the entries. Released fields keep their names. */
export const auditList = Type.Object({
  acts: Type.Array(auditEntry, { description: 'Audit log entries, newest first.' }),
  more,
  next: next('before'),
})
export type AuditList = Static<typeof auditList>

export function auditEntryView(record: AuditRecord): AuditEntry {
  const { id, atMs, who, what, account, target, detailsJson, outcome } = record
  const details = JSON.parse(detailsJson) as AuditEntry['details']
  return { id, at: atMs / 1000, who, what, account, target, details, outcome }
}

export function auditListView(records: readonly AuditRecord[], more: boolean): AuditList {
  return { acts: records.map(auditEntryView), more, next: more ? (records.at(-1)?.id ?? null) : null }
}
