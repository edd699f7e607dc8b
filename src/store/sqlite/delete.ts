/**
 * Deletes finished jobs and whole accounts in SQLite. Deleted bytes stay in free pages of the file until a scrub removes them.
 */
import type { AccountDeleted } from '../operator-store.ts'
import { type Row, textOf } from '../rows.ts'
import { raw, type Steps, sql } from '../sql.ts'
import { outcomeBytesOf, requestBytesOf } from '../stored-bytes.ts'
import type { OpenFile } from './open-file.ts'
import { read, write } from './operation.ts'
import { ADD_TO_QUOTAS } from './sums.ts'

export function* deleteJobs(rows: readonly Row[]): Steps<void> {
  const ids = sql`(select value from json_each(${rows.map((row) => textOf(row, 'id'))}))`
  yield sql`
    ${raw(ADD_TO_QUOTAS.insert)}
    select j.account, 0, -sum(${raw(requestBytesOf('r'))} + ${raw(outcomeBytesOf('o'))}), 0
    from jobs j cross join requests r on r.seq = j.seq left join outcomes o on o.seq = j.seq
    where j.id in ${ids} group by j.account
    ${raw(ADD_TO_QUOTAS.onConflict)}`
  for (const table of ['requests', 'outcomes', 'callbacks', 'kept_answers']) {
    yield sql`delete from ${raw(table)} where seq in (select seq from jobs where id in ${ids})`
  }
  yield sql`delete from jobs where id in ${ids}`
}

export const deletionOperations = {
  deleteAccount: write((file: OpenFile, account: string, usageAs: string): AccountDeleted => {
    if (HAS_OPEN_JOBS.some((sql) => file.prepare(sql).get(account))) return 'has open jobs'
    // Jobs that finished in this transaction may have usage that is not in the tables yet.
    file.usage.write(file)
    file.quotas.write(file)
    file.prepare('update usage set account = ? where account = ?').run(usageAs, account)
    for (const sql of DELETE_OF_ACCOUNT) file.prepare(sql).run(account)
    const { changes } = file.prepare('delete from accounts where name = ?').run(account)
    return changes > 0 ? 'deleted' : 'unknown'
  }),

  /**
   * Rewrites the file without free pages, and empties the write-ahead log, which still contains the deleted data. Throws if the
   * log cannot be emptied, because another process keeps reading the file. This is declared as a read because `vacuum` cannot
   * run in a transaction.
   */
  scrub: read(({ db }: OpenFile): void => {
    // The copy that `vacuum` writes is as large as the database, so it might not fit into memory.
    db.exec('pragma temp_store = file; vacuum; pragma temp_store = memory')
    const row = db.prepare('pragma wal_checkpoint(truncate)').get()
    if (row?.busy !== 0)
      throw new Error('another process reads the database, so its log could not be emptied')
  }),
}

/** Queued jobs have a turn, and held jobs have a node. */
const HAS_OPEN_JOBS = ['turn', 'node'].map(
  (column) => `select 1 from jobs where account = ? and ${column} is not null limit 1`,
)
/** The sums of an account that still has jobs stay, because the sums must match the stored jobs. */
const DELETE_OF_ACCOUNT = [
  ...['keys', 'turns', 'idempotency', 'callbacks'].map((table) => `delete from ${table} where account = ?`),
  'delete from quota_sums where account = ? and open_jobs = 0 and stored_bytes = 0',
]
