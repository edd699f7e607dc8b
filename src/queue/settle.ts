/**
 * Settles a job: stores its outcome, durably and only once, then answers the pending response, notifies the callback
 * dispatcher, counts and logs. The outcome was paid for, so a failed write is retried until the store accepts it or the process
 * stops. If the store permanently rejects the outcome, a failure is stored instead.
 */
import type { Clock } from '../clock.ts'
import { type ClaimedJob, errorJson, type Job } from '../job/job.ts'
import { type Settled, type Store, WriteRejected } from '../store/store.ts'
import { type ExecutionResult, notStorable, receiptJson } from './execution-result.ts'
import type { PendingResponses } from './pending-responses.ts'
import { retryWrite } from './retry-write.ts'

export interface SettleOptions {
  readonly store: Pick<Store, 'settle'>
  readonly node: string
  readonly clock: Clock
  /** Returns false while the process is stopping. */
  readonly mayRetry: () => boolean
  readonly onError: (message: string, error: unknown) => void
}

/** `result` is what was stored. It differs from the given result if the store rejected that. */
export type SettledResult =
  | {
      /**
       * `given up`: the process is stopping, and the store has not confirmed the write, so the job may still be assigned to
       * this node.
       */
      readonly settled: Settled | 'given up'
      readonly result: ExecutionResult
    }
  /** The store rejects every outcome of this job. */
  | { readonly settled: 'rejected' }

/** @param mayWaitMs how long the store may delay the write to share a transaction with others, in milliseconds */
export async function settle(
  job: ClaimedJob,
  result: ExecutionResult,
  mayWaitMs: number,
  options: SettleOptions,
): Promise<SettledResult> {
  const { onError } = options
  try {
    return { settled: await write(job, result, mayWaitMs, options), result }
  } catch (error) {
    if (!(error instanceof WriteRejected)) throw error
    onError(`the database rejects the outcome of job ${job.id}; the job fails with internal_error`, error)
  }
  const failure = notStorable(result)
  try {
    return { settled: await write(job, failure, 0, options), result: failure }
  } catch (error) {
    if (!(error instanceof WriteRejected)) throw error
    const message = `the database rejects every outcome of job ${job.id}; the job will not run again until a restart. Repair the database and restart, or cancel the job`
    onError(message, error)
    return { settled: 'rejected' }
  }
}

function write(
  { id, attempt, model }: ClaimedJob,
  { outcome, usage, receipt, cache }: ExecutionResult,
  mayWaitMs: number,
  { store, node, clock, mayRetry, onError }: SettleOptions,
): Promise<Settled | 'given up'> {
  const settlement = {
    jobId: id,
    node,
    attempt,
    model,
    outcome,
    usage,
    receiptJson: receiptJson(receipt),
    cache,
    nowMs: clock.nowMs(),
    mayWaitMs,
  }
  return retryWrite(
    () => store.settle(settlement),
    clock,
    (error) => onError(`settling job ${id} failed; retrying`, error),
    mayRetry,
  )
}

export interface AfterSettlementOptions {
  readonly pendingResponses: Pick<PendingResponses, 'end'>
  readonly dispatcher: { notify(account: string, jobId: string): void }
  readonly metrics: {
    settled(job: Pick<Job, 'model'>, result: StoredResult, executionMs: number | null): void
  }
  readonly log: JobLog
}

interface JobLog {
  debug(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** `callbackJson` is used only to see whether there is a callback. */
export type SettledJob = Pick<Job, 'id' | 'account' | 'model' | 'createdAtMs' | 'callbackJson'>

export type StoredResult = Omit<ExecutionResult, 'cache'>

/**
 * Call this after each settlement.
 * @param settled `settled`: everything is done. `gone`: only the pending response is answered, because the job can no longer be
 *   read. `stale`: nothing is done, because another holder settled the job
 * @param executionMs null if the job ended in the queue
 */
export type AfterSettlement = (
  job: SettledJob,
  result: StoredResult,
  settled: Settled,
  executionMs: number | null,
) => void

export function createAfterSettlement(options: AfterSettlementOptions): AfterSettlement {
  const { pendingResponses, dispatcher, metrics, log } = options
  return function afterSettlement(job, result, settled, executionMs) {
    if (settled === 'gone') pendingResponses.end(job.id, { kind: 'vanished' })
    if (settled !== 'settled') return
    const { outcome, usage } = result
    const error = outcome.status === 'failed' ? outcome.error : null
    const record = {
      id: job.id,
      status: outcome.status,
      createdAtMs: job.createdAtMs,
      contentJson: outcome.status === 'completed' ? outcome.contentJson : null,
      errorJson: error && errorJson(error),
      usageJson: JSON.stringify(usage),
    }
    pendingResponses.end(job.id, { kind: 'settled', record, cacheHit: usage.cache_hit })
    if (job.callbackJson !== null) dispatcher.notify(job.account, job.id)
    metrics.settled(job, result, executionMs)
    const fields = {
      job_id: job.id,
      account: job.account,
      model: job.model,
      target: usage.target,
      ms: Math.round(executionMs ?? 0),
    }
    const cut = result.receipt.calls.at(-1)?.finish_reason
    const finish = cut === undefined ? undefined : { finish_reason: cut }
    // The log omits the model server's message, which may quote the conversation.
    if (error)
      log.warn(
        { ...fields, ...finish, code: error.code, upstream_status: error.upstream_status },
        'job failed',
      )
    else if (finish)
      log.warn({ ...fields, ...finish }, 'job completed; its answer was cut off at a length limit')
    else log.debug(fields, 'job completed')
  }
}
