/** Cancels jobs in SQLite: an outcome like any other, and a row that reports it to the server. */
import { cancelledErrorJson } from '../../job/cancelled.ts'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
  type CancelJobs,
  type Cancelled,
} from '../admin-action-store.ts'
import { type Claim, MAX_CANCELLED } from '../node-store.ts'
import { type OwnCancel, usageOfCancelled } from '../own-job-store.ts'
import { booleanOf, numberOf, textOf, textOrNull } from '../rows.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { read, write } from './operation.ts'
import { storeOutcome } from './settle.ts'

export const cancelOperations = {
  cancelJob: write((file: OpenFile, jobId: string, nowMs: number): Cancelled => {
    const job = file.prepare('select settled_at_ms from jobs where id = ?').get(jobId)
    if (!job) return 'unknown'
    if (job.settled_at_ms !== null) return 'ended before'
    cancel(file, jobId, nowMs, BY_OPERATOR)
    return 'cancelled'
  }),

  cancelJobs: write((file: OpenFile, { account, running, beforeJobId, limit, nowMs }: CancelJobs): number => {
    const rows = file.prepare(OPEN_JOBS).all(account, beforeJobId, running ? 1 : 0, limit)
    for (const row of rows) cancel(file, textOf(row, 'id'), nowMs, BY_OPERATOR)
    return rows.length
  }),
}

export const ownCancelOperations = {
  cancelOwnJob: write((file: OpenFile, { account, jobId, nowMs, inputTokens }: OwnCancel): Cancelled => {
    const job = file.prepare(FIND_OWN).get(jobId, account)
    if (!job) return 'unknown'
    if (job.settled_at_ms !== null) return 'ended before'
    const usageJson = usageOfCancelled({
      isHeld: job.node !== null,
      inputTokens: inputTokens ?? numberOf(job, 'input_tokens'),
      earlierJson: textOrNull(job, 'earlier'),
    })
    cancel(file, jobId, nowMs, { errorJson: cancelledErrorJson('caller'), usageJson })
    return 'cancelled'
  }),

  heldMessages: read((file: OpenFile, account: string, jobId: string, maxBytes: number): string | null => {
    const job = file.prepare(HELD_MESSAGES).get(jobId, account, maxBytes)
    return job ? textOf(job, 'messages') : null
  }),
}

export const cancelledOperations = {
  takeCancelled: write((file: ServedFile, _node: string): Claim[] => {
    const rows = file.prepare(TAKE_CANCELLED).all(MAX_CANCELLED)
    // They were queued or assigned before, and another process may have cancelled them.
    if (rows.length > 0) file.queue.recount(file)
    return rows.map((row) => ({ jobId: textOf(row, 'job_id'), attempt: numberOf(row, 'attempt') }))
  }),
}

/** What is stored of who cancelled a job, and what it used. */
interface CancelledOutcome {
  readonly errorJson: string
  readonly usageJson: string
}

const BY_OPERATOR: CancelledOutcome = { errorJson: CANCELLED_ERROR_JSON, usageJson: CANCELLED_USAGE_JSON }

function cancel(
  file: OpenFile,
  jobId: string,
  nowMs: number,
  { errorJson, usageJson }: CancelledOutcome,
): void {
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
  storeOutcome(file, row, ['failed', null, errorJson, usageJson, CANCELLED_RECEIPT_JSON, null, 0, nowMs])
  file.prepare(REPORT).run(jobId, numberOf(job, 'attempt'))
}

const FIND_OWN = 'select settled_at_ms, node, input_tokens, earlier from jobs where id = ? and account = ?'
const HELD_MESSAGES = `
  select r.messages from jobs j join requests r on r.seq = j.seq
  where j.id = ? and j.account = ? and j.node is not null and octet_length(r.messages) <= ?`
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
