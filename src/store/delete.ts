/**
 * Deletes finished jobs: the SQL of both stores. The deletion of an account differs: see `delete.ts` in the folder of each
 * store.
 */
import { isJobId } from '../job/job-id.ts'
import type { Deleted, DeletedJobs } from './admin-action-store.ts'
import type { Dialect } from './dialect.ts'
import { hasExpired, IS_JOB } from './job-rows.ts'
import type { OwnDeleted, OwnDeletion } from './own-job-store.ts'
import { numberOf, type Row, textOf } from './rows.ts'
import { raw, type Steps, sql, write } from './sql.ts'

/** How many jobs one step examines. This takes the database a few milliseconds. */
const STEP = 2000

export const deleteOperations = ({ anyOf, deleteJobs, job, jobId: idOf, joinJob }: Dialect) => {
  const columns = sql`j.id, j.cache_ttl_s, ${job.settledAtMs} as settled_at_ms, ${job.claimedAtMs} as claimed_at_ms,
    c.due_at_ms`
  const findOne = (jobId: string) => sql`
    select ${columns}, j.account from (select ${idOf(jobId)} as id) one ${joinJob(sql`one.id`)} where ${raw(IS_JOB)}`

  function* deleteEnded(rows: readonly Row[]): Steps<number> {
    const ended = rows.filter((row) => row.settled_at_ms !== null)
    if (ended.length === 0) return 0
    yield* deleteJobs(ended)
    // A rerun's refusal may name the account.
    yield sql`delete from reruns where original_id ${anyOf(ended.map((row) => textOf(row, 'id')))}`
    return ended.length
  }

  return {
    deleteJob: write(function* (jobId: string): Steps<Deleted> {
      const rows = isJobId(jobId) ? yield findOne(jobId) : []
      if (rows.length === 0) return 'unknown'
      return (yield* deleteEnded(rows)) > 0 ? 'deleted' : 'not ended'
    }),

    /** A row without an ID reports only how far the scan came. */
    deleteJobsOf: write(function* (account: string, afterJobId: string): Steps<DeletedJobs> {
      const rows = yield sql`
        with scanned as materialized (
          select id, account from jobs where id > ${afterJobId} order by id limit ${raw(STEP)}
        ),
        of_account as (
          select ${columns} from (select id from scanned where account = ${account}) one ${joinJob(sql`one.id`)}
        )
        select (select count(*) from scanned) as scanned, (select id from scanned order by id desc limit 1) as last_id, m.*
        from (select 1 as one) one left join of_account m on true`
      const [first = {}] = rows
      const ofAccount = rows.filter((row) => row.id !== null)
      const deleted = yield* deleteEnded(ofAccount)
      const isLast = numberOf(first, 'scanned') < STEP
      return { deleted, open: ofAccount.length - deleted, next: isLast ? null : textOf(first, 'last_id') }
    }),

    deleteOwnJob: write(function* (deletion: OwnDeletion): Steps<OwnDeleted> {
      const { account, jobId, dropCallback, expiry } = deletion
      const rows = isJobId(jobId) ? yield findOne(jobId) : []
      const [job] = rows
      if (job?.account !== account || hasExpired(job, expiry)) return 'unknown'
      if (job.settled_at_ms === null) return 'not ended'
      if (job.due_at_ms !== null && !dropCallback) return 'callback owed'
      yield* deleteEnded(rows)
      return 'deleted'
    }),
  }
}
