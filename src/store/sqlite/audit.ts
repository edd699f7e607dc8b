/** The audit log in SQLite. */
import { AUDIT_COLUMNS, readAuditEntry } from '../audit-rows.ts'
import type { AuditEntry, AuditSearch, NewAuditEntry } from '../audit-store.ts'
import type { OpenFile } from './open-file.ts'
import { read, write } from './operation.ts'

export const auditOperations = {
  addAuditEntry: write(
    (file: OpenFile, { id, atMs, who, what, account, target, detailsJson }: NewAuditEntry): void => {
      const [name, ofJob] = typeof account === 'object' ? [null, account?.ofJob ?? null] : [account, null]
      file.prepare(ADD).run(id, atMs, who, what, name, ofJob, target, detailsJson)
    },
  ),

  endAuditEntry: write((file: OpenFile, entryId: string, outcome: string): void => {
    file.prepare('update audit set outcome = ? where id = ?').run(outcome, entryId)
  }),

  listAuditEntries: read((file: OpenFile, { account, beforeEntryId, limit }: AuditSearch): AuditEntry[] =>
    file
      .prepare(LIST)
      .all(account ?? null, beforeEntryId ?? null, limit)
      .map(readAuditEntry),
  ),
}

const ADD = `
  insert into audit (id, at_ms, who, what, account, target, details)
  values (?1, ?2, ?3, ?4, coalesce(?5, (select account from jobs where id = ?6)), ?7, ?8)`
const LIST = `
  select ${AUDIT_COLUMNS} from audit
  where (?1 is null or account = ?1) and (?2 is null or id < ?2) order by id desc limit ?3`
