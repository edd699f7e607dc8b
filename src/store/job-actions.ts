/** Both stores share this SQL, which cancels jobs, even if a node holds them, and deletes finished jobs. */
import { costOfInput } from '../job/cost.ts'
import { isJobId } from '../job/job-id.ts'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_USAGE_JSON,
  cancelledErrorJson,
  usageOfCancelled,
} from '../job/results-without-call.ts'
import type { Dialect } from './dialect.ts'
import { hasExpired, IS_JOB } from './job-rows.ts'
import type { CancelJobs, Cancelled, CancelledOutcome, Deleted, DeletedJobs } from './operator-store.ts'
import type { OwnCancel, OwnDeleted, OwnDeletion } from './own-job-store.ts'
import { numberOf, type Row, textOf, textOrNull } from './rows.ts'
import { raw, type Steps, sql, write } from './sql.ts'

export const cancelOperations = ({ anyOf, cancel, lockOpenJob, openJobs }: Dialect) => ({
  cancelJob: write(function* (jobId: string, nowMs: number): Steps<Cancelled> {
    if (!isJobId(jobId)) return 'unknown'
    if ((yield* cancel(sql`id = ${jobId}`, byOperator(nowMs))) > 0) return 'cancelled'
    return (yield sql`select 1 from jobs where id = ${jobId}`).length > 0 ? 'ended before' : 'unknown'
  }),

  // The loop ends only at the limit or when it finds no job. Otherwise jobs that change meanwhile could be left out.
  cancelJobs: write(function* (which: CancelJobs): Steps<number> {
    const { running, limit, nowMs } = which
    for (let total = 0; ; ) {
      const picked = total < limit ? yield openJobs(which, limit - total) : []
      if (picked.length === 0) return total
      const ids = picked.map((row) => textOf(row, 'id'))
      // A job may have been claimed or released before its row was locked, so the condition is checked again.
      const condition = running ? sql`id ${anyOf(ids)}` : sql`id ${anyOf(ids)} and turn is not null`
      total += yield* cancel(condition, byOperator(nowMs))
    }
  }),

  cancelOwnJob: write(function* ({
    account,
    jobId,
    nowMs,
    inputTokens: counted,
    inputPrices,
  }: OwnCancel): Steps<Cancelled> {
    if (!isJobId(jobId)) return 'unknown'
    const [job] = yield sql`select input_tokens, model from jobs where id = ${jobId} and account = ${account}`
    if (!job) return 'unknown'
    // While the job is locked, no release can change its stored usage (`earlier`).
    const [open] = yield lockOpenJob(jobId)
    if (!open) return 'ended before'
    const inputTokens = counted ?? numberOf(job, 'input_tokens')
    const price = inputPrices?.get(textOf(job, 'model'))
    const usageJson = usageOfCancelled({
      isHeld: open.node !== null,
      inputTokens,
      inputCost: price === undefined ? (open.reserved === null ? null : 0) : costOfInput(price, inputTokens),
      earlierJson: textOrNull(open, 'earlier'),
    })
    const outcome = { by: 'caller', errorJson: cancelledErrorJson('caller'), usageJson, nowMs } as const
    return (yield* cancel(sql`id = ${jobId}`, outcome)) > 0 ? 'cancelled' : 'ended before'
  }),
})

function byOperator(nowMs: number): CancelledOutcome {
  return { by: 'operator', errorJson: CANCELLED_ERROR_JSON, usageJson: CANCELLED_USAGE_JSON, nowMs }
}

/** `deleteJobsOf` examines this many jobs at a time, which takes the database a few milliseconds. */
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
    // These rows are deleted too, because the refusal of a rerun may name the account.
    yield sql`delete from reruns where original_id ${anyOf(ended.map((row) => textOf(row, 'id')))}`
    return ended.length
  }

  return {
    deleteJob: write(function* (jobId: string): Steps<Deleted> {
      const rows = isJobId(jobId) ? yield findOne(jobId) : []
      if (rows.length === 0) return 'unknown'
      return (yield* deleteEnded(rows)) > 0 ? 'deleted' : 'not ended'
    }),

    /**
     * If the account has none of the scanned jobs, the statement returns a single row without an ID, which says only how far
     * the scan came.
     */
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
