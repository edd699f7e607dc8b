/** Cancels jobs in SQLite: an outcome like any other, and a row that reports it to the server. */
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
  type CancelJobs,
  type Cancelled,
} from '../admin-action-store.ts'
import { type Claim, MAX_CANCELLED } from '../node-store.ts'
import { booleanOf, numberOf, textOf } from '../rows.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { write } from './operation.ts'
import { storeOutcome } from './settle.ts'

export const cancelOperations = {
  cancelJob: write((file: OpenFile, jobId: string, nowMs: number): Cancelled => {
    const job = file.prepare('select settled_at_ms from jobs where id = ?').get(jobId)
    if (!job) return 'unknown'
    if (job.settled_at_ms !== null) return 'ended before'
    cancel(file, jobId, nowMs)
    return 'cancelled'
  }),

  cancelJobs: write((file: OpenFile, { account, running, beforeJobId, limit, nowMs }: CancelJobs): number => {
    const rows = file.prepare(OPEN_JOBS).all(account, beforeJobId, running ? 1 : 0, limit)
    for (const row of rows) cancel(file, textOf(row, 'id'), nowMs)
    return rows.length
  }),
}

export const cancelledOperations = {
  takeCancelled: write((file: ServedFile, _node: string): Claim[] => {
    const rows = file.prepare(TAKE_CANCELLED).all(MAX_CANCELLED)
    // They were queued or assigned until then, and perhaps a command cancelled them in a process of its own.
    if (rows.length > 0) file.queue.recount(file)
    return rows.map((row) => ({ jobId: textOf(row, 'job_id'), attempt: numberOf(row, 'attempt') }))
  }),
}

function cancel(file: OpenFile, jobId: string, nowMs: number): void {
  const job = file.prepare(END).get(nowMs, jobId)
  if (!job) throw new Error(`the job ${jobId} that is to be cancelled does not exist`)
  const row = {
    seq: numberOf(job, 'seq'),
    jobId,
    account: textOf(job, 'account'),
    model: textOf(job, 'model'),
    owesCallback: booleanOf(job, 'has_callback'),
    openJobs: -1,
    bytes: 0,
  } as const
  const texts = [CANCELLED_ERROR_JSON, CANCELLED_USAGE_JSON, CANCELLED_RECEIPT_JSON] as const
  storeOutcome(file, row, ['failed', null, ...texts, null, 0, nowMs])
  file.prepare(REPORT).run(jobId, numberOf(job, 'attempt'))
}

const OPEN_JOBS = `
  select id from jobs indexed by jobs_waiting_by_account
    where turn is not null and account = ?1 and id < ?2
  union all
  select id from jobs indexed by jobs_held where node is not null and account = ?1 and id < ?2 and ?3
  limit ?4`
const END = `
  update jobs set status = 'failed', settled_at_ms = ?, turn = null, node = null
  where id = ? and settled_at_ms is null returning seq, account, model, attempt, has_callback`
const REPORT = 'insert or replace into cancelled_jobs (job_id, attempt) values (?, ?)'
const TAKE_CANCELLED = `
  delete from cancelled_jobs where job_id in (select job_id from cancelled_jobs order by job_id limit ?)
  returning job_id, attempt`
