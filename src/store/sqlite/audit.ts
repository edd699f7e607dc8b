/** The audit log in SQLite. */
import type { DatabaseSync } from 'node:sqlite'
import type { AuditEntry, AuditSearch, NewAuditEntry } from '../audit-store.ts'

export class SqliteAudit {
  readonly #db: DatabaseSync

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  note({ id, atMs, who, what, account, target, detailsJson }: NewAuditEntry): void {
    this.#db
      .prepare(
        'insert into audit (id, at_ms, who, what, account, target, details) values (?, ?, ?, ?, ?, ?, ?)',
      )
      .run(id, atMs, who, what, account, target, detailsJson)
  }

  end(actId: string, outcome: string): void {
    this.#db.prepare('update audit set outcome = ? where id = ?').run(outcome, actId)
  }

  list({ account, beforeEntryId: beforeActId, limit }: AuditSearch): AuditEntry[] {
    const rows = this.#db
      .prepare(
        `select id, at_ms as atMs, who, what, account, target, details as detailsJson, outcome from audit
         where (?1 is null or account = ?1) and (?2 is null or id < ?2) order by id desc limit ?3`,
      )
      .all(account ?? null, beforeActId ?? null, limit)
    return rows.map((row) => ({ ...row }) as unknown as AuditEntry)
  }
}
