/** The audit log in Postgres. */
import { isJobId } from '../../job/job-id.ts'
import { AUDIT_COLUMNS, readAuditEntry } from '../audit-rows.ts'
import type { AuditStore } from '../audit-store.ts'
import { AFTER_ALL } from '../pagination.ts'
import type { Database, Statement } from './database.ts'

export function auditOperations(database: Database): AuditStore {
  return {
    addAuditEntry: async ({ id, atMs, who, what, account, target, detailsJson }) => {
      const [name, job] = typeof account === 'object' ? [null, account?.ofJob ?? null] : [account, null]
      // A text that is not an identifier would fail the statement.
      const ofJob = job !== null && isJobId(job) ? job : null
      await database.query(ADD, [id, atMs, who, what, name, ofJob, target, detailsJson])
    },

    endAuditEntry: async (entryId, outcome) => {
      await database.query(END, [entryId, outcome])
    },

    listAuditEntries: async ({ account, beforeEntryId, limit }) => {
      const before = beforeEntryId !== undefined && isJobId(beforeEntryId) ? beforeEntryId : AFTER_ALL
      const rows =
        account === undefined
          ? await database.query(LIST, [before, limit])
          : await database.query(LIST_OF, [before, limit, account])
      return rows.map(readAuditEntry)
    },
  }
}

/** If its answer was lost it is repeated, and then finds its own row. */
const ADD: Statement = {
  repeatable: true,
  name: 'add audit entry',
  text: `
  insert into audit (id, at_ms, who, what, account, target, details)
  values ($1, $2, $3, $4, coalesce($5, (select account from jobs where id = $6::uuid)), $7, $8)
  on conflict (id) do nothing`,
}
const END: Statement = {
  repeatable: true,
  name: 'end audit entry',
  text: 'update audit set outcome = $2 where id = $1',
}
const SELECT = `select ${AUDIT_COLUMNS} from audit where id < $1::uuid`
const LIST: Statement = {
  repeatable: true,
  name: 'list audit entries',
  text: `${SELECT} order by id desc limit $2::bigint`,
}
const LIST_OF: Statement = {
  repeatable: true,
  name: 'list audit entries of an account',
  text: `${SELECT} and account = $3 order by id desc limit $2::bigint`,
}
