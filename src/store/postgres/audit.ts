/** The audit log in Postgres. */
import { isJobId } from '../../job/job-id.ts'
import type { AuditEntry, AuditSearch, AuditStore, NewAuditEntry } from '../audit-store.ts'
import type { Database, Statement } from './database.ts'

export class PostgresAudit implements AuditStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async addAuditEntry({ id, atMs, who, what, account, target, detailsJson }: NewAuditEntry): Promise<void> {
    await this.#database.query(NOTE, [id, atMs, who, what, account, target, detailsJson])
  }

  async endAuditEntry(actId: string, outcome: string): Promise<void> {
    await this.#database.query(END, [actId, outcome])
  }

  async listAuditEntries({ account, beforeEntryId: beforeActId, limit }: AuditSearch): Promise<AuditEntry[]> {
    const before = beforeActId !== undefined && isJobId(beforeActId) ? beforeActId : AFTER_ALL
    const rows =
      account === undefined
        ? await this.#database.query(LIST, [before, limit])
        : await this.#database.query(LIST_OF, [before, limit, account])
    return rows as unknown as AuditEntry[]
  }
}

const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Repeated where its answer was lost, it finds itself. */
const NOTE: Statement = {
  repeatable: true,
  name: 'note act',
  text: `insert into audit (id, at_ms, who, what, account, target, details) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (id) do nothing`,
}
const END: Statement = {
  repeatable: true,
  name: 'end act',
  text: 'update audit set outcome = $2 where id = $1',
}
export const ACT_COLUMNS =
  'id, at_ms as "atMs", who, what, account, target, details as "detailsJson", outcome'
const SELECT = `select ${ACT_COLUMNS} from audit where id < $1::uuid`
const LIST: Statement = {
  repeatable: true,
  name: 'list acts',
  text: `${SELECT} order by id desc limit $2::bigint`,
}
const LIST_OF: Statement = {
  repeatable: true,
  name: 'list acts of an account',
  text: `${SELECT} and account = $3 order by id desc limit $2::bigint`,
}
