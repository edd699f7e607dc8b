/** Deletes what is stored of ended jobs, and of whole accounts, in SQLite. */
import type { AccountDeleted, Deleted, DeletedJobs } from '../admin-action-store.ts'
import { hasExpired } from '../job-rows.ts'
import type { OwnDeleted, OwnDeletion } from '../own-job-store.ts'
import { numberOf, textOf } from '../rows.ts'
import type { OpenFile } from './open-file.ts'
import { write } from './operation.ts'
import { storedBytes } from './quota-sums.ts'

/** Jobs that one step looks at: a few milliseconds of the file. */
const STEP = 2000

export const deleteOperations = {
  deleteJob: write((file: OpenFile, jobId: string): Deleted => {
    const job = file.prepare(FIND_JOB).get(jobId)
    if (!job) return 'unknown'
    if (job.settled_at_ms === null) return 'not ended'
    deleteRows(file, jobId, numberOf(job, 'seq'), textOf(job, 'account'))
    return 'deleted'
  }),

  deleteJobsOf: write((file: OpenFile, account: string, afterJobId: string): DeletedJobs => {
    const rows = file.prepare(NEXT_JOBS).all(afterJobId, STEP)
    const ofAccount = rows.filter((row) => row.account === account)
    const ended = ofAccount.filter((row) => row.settled_at_ms !== null)
    for (const row of ended) deleteRows(file, textOf(row, 'id'), numberOf(row, 'seq'), account)
    const last = rows.at(-1)
    return {
      deleted: ended.length,
      open: ofAccount.length - ended.length,
      next: last && rows.length === STEP ? textOf(last, 'id') : null,
    }
  }),

  deleteAccount: write((file: OpenFile, account: string): AccountDeleted => {
    if (HAS_OPEN_JOBS.some((sql) => file.prepare(sql).get(account))) return 'has open jobs'
    file.quotas.write(file)
    for (const sql of DELETE_OF_ACCOUNT) file.prepare(sql).run(account)
    const { changes } = file.prepare('delete from accounts where name = ?').run(account)
    return changes > 0 ? 'deleted' : 'unknown'
  }),
}

export const ownDeleteOperations = {
  deleteOwnJob: write((file: OpenFile, { account, jobId, dropCallback, expiry }: OwnDeletion): OwnDeleted => {
    const job = file.prepare(FIND_OWN).get(jobId, account)
    if (!job || hasExpired(job, expiry)) return 'unknown'
    if (job.settled_at_ms === null) return 'not ended'
    if (job.due_at_ms !== null && !dropCallback) return 'callback owed'
    deleteRows(file, jobId, numberOf(job, 'seq'), account)
    return 'deleted'
  }),
}

function deleteRows(file: OpenFile, jobId: string, seq: number, account: string): void {
  file.quotas.add(account, 0, -storedBytes(file, seq))
  for (const sql of DELETE_ROWS) file.prepare(sql).run(seq)
  file.prepare('delete from jobs where id = ?').run(jobId)
}

const FIND_JOB = 'select seq, account, settled_at_ms from jobs where id = ?'
const FIND_OWN = `
  select j.seq, j.settled_at_ms, j.cache_ttl_s, c.due_at_ms
  from jobs j left join callbacks c on c.seq = j.seq where j.id = ? and j.account = ?`
const NEXT_JOBS = 'select id, seq, account, settled_at_ms from jobs where id > ? order by id limit ?'
const DELETE_ROWS = ['requests', 'outcomes', 'callbacks', 'kept_answers'].map(
  (table) => `delete from ${table} where seq = ?`,
)
/** Queued and held jobs have an index each. */
const HAS_OPEN_JOBS = ['turn', 'node'].map(
  (column) => `select 1 from jobs where account = ? and ${column} is not null limit 1`,
)
/** Its sums stay for as long as jobs of it do, so that they remain the sums of what is stored. */
const DELETE_OF_ACCOUNT = [
  ...['keys', 'turns', 'idempotency', 'usage', 'callbacks'].map(
    (table) => `delete from ${table} where account = ?`,
  ),
  'delete from quota_sums where account = ? and open_jobs = 0 and stored_bytes = 0',
]
