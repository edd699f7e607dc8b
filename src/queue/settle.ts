/**
 * Settles a job: stores its outcome, durably and only once. The outcome was paid for, so a failed write is retried until the
 * store accepts it or the process stops. If the store permanently rejects the outcome, a failure is stored instead.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob } from '../job/job.ts'
import { type Settled, type Store, WriteRejected } from '../store/store.ts'
import { type ExecutionResult, notStorable, receiptJson } from './execution-result.ts'
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
