/** Both stores share this SQL, which adds entries to the audit log, records their outcomes, and lists them. */
import { isJobId } from '../job/job-id.ts'
import type { AuditEntry, AuditSearch, NewAuditEntry } from './operator-store.ts'
import { numberOf, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, read, repeatableWrite, type Steps, sql } from './sql.ts'

export const auditOperations = {
  // A statement that is repeated because its response was lost finds its own row.
  addAuditEntry: repeatableWrite(function* (entry: NewAuditEntry): Steps<void> {
    const { id, atMs, who, what, account, target, detailsJson } = entry
    yield sql`
      insert into audit (id, at_ms, who, what, account, target, details)
      values (${id}, ${atMs}, ${who}, ${what}, ${accountOf(account)}, ${target}, ${detailsJson})
      on conflict (id) do nothing`
  }),

  endAuditEntry: repeatableWrite(function* (entryId: string, outcome: string): Steps<void> {
    yield sql`update audit set outcome = ${outcome} where id = ${entryId}`
  }),

  listAuditEntries: read(function* ({ account, beforeEntryId, limit }: AuditSearch): Steps<AuditEntry[]> {
    const which = allOf(
      account === undefined ? undefined : sql`account = ${account}`,
      beforeEntryId === undefined || !isJobId(beforeEntryId) ? undefined : sql`id < ${beforeEntryId}`,
    )
    const rows = yield sql`
      select id, at_ms, who, what, account, target, details, outcome from audit
      where ${which} order by id desc limit ${limit}`
    return rows.map(readAuditEntry)
  }),
}

function accountOf(account: NewAuditEntry['account']) {
  if (account === null || typeof account === 'string') return account
  if ('ofKey' in account) return sql`(select account from keys where id = ${account.ofKey})`
  if ('ofBatch' in account) return sql`(select account from batches where id = ${account.ofBatch})`
  // Postgres would reject the statement if this text were not a UUID.
  return isJobId(account.ofJob) ? sql`(select account from jobs where id = ${account.ofJob})` : null
}

function readAuditEntry(row: Row): AuditEntry {
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
