/**
 * Settles a job: stores its outcome, durably and once. An outcome has been paid for, so a write that fails is retried until
 * the store takes it, and one that the store rejects for good is replaced by a failure that it can store.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob } from '../job/job.ts'
import { type Settled, type Settlement, type Store, WriteRejected } from '../store/store.ts'
import { type ExecutionResult, notStorable, receiptJson } from './execution-result.ts'
import type { HeldJob } from './held-job.ts'
import { retryWrite } from './retry-write.ts'

export interface SettleOptions {
  readonly store: Pick<Store, 'settle' | 'acceptEnded'>
  readonly node: string
  readonly clock: Clock
  /** Asked before each retry: a process that is ending stops retrying. */
  readonly mayRetry: () => boolean
  readonly onError: (message: string, error: unknown) => void
}

/** What became of a settlement. `result` is what was stored: not always what the execution returned. */
export interface SettledResult {
  readonly settled: Settled | 'unsettled'
  readonly result: ExecutionResult
}

/**
 * Never writes the outcome of a job that is not stored. Rejects with the store's error for a job that never existed.
 * @returns `unsettled` when the process ended before the store took the outcome; the job is still this node's then
 * @throws WriteRejected when the store rejects every outcome of this job
 */
export async function settle(
  held: HeldJob,
  result: ExecutionResult,
  options: SettleOptions,
): Promise<SettledResult> {
  const { store } = options
  const { job } = held
  const settlement = settlementOf(job, result, options)
  if (held.state === 'unsent') {
    const write = store.acceptEnded(job, settlement)
    let stored = result
    held.sentIn(
      write.catch((error) => {
        stored = failureInstead(job, result, error, options)
        return store.acceptEnded(job, settlementOf(job, stored, options))
      }),
    )
    await held.accepted
    return { settled: 'settled', result: stored }
  }
  if (held.state !== 'stored') await held.accepted
  try {
    return { settled: await write(settlement, options), result }
  } catch (error) {
    const failure = failureInstead(job, result, error, options)
    return { settled: await write(settlementOf(job, failure, options), options), result: failure }
  }
}

async function write(settlement: Settlement, options: SettleOptions): Promise<SettledResult['settled']> {
  const { store, clock, mayRetry, onError } = options
  const settled = await retryWrite(
    () => store.settle(settlement),
    clock,
    (error) => onError(`settling job ${settlement.jobId} failed; it is retried`, error),
    mayRetry,
  )
  return settled === 'given up' ? 'unsettled' : settled
}

/** Rethrows any error that does not mean that the store rejects this outcome. */
function failureInstead(
  { id }: ClaimedJob,
  result: ExecutionResult,
  error: unknown,
  { onError }: SettleOptions,
): ExecutionResult {
  if (!(error instanceof WriteRejected)) throw error
  onError(`the database rejects the outcome of job ${id}; the job fails with internal_error`, error)
  return notStorable(result)
}

function settlementOf(
  { id, attempt, model }: ClaimedJob,
  { outcome, usage, receipt, cache }: ExecutionResult,
  { node, clock }: SettleOptions,
): Settlement {
  return {
    jobId: id,
    node,
    attempt,
    model,
    outcome,
    usage,
    receiptJson: receiptJson(receipt),
    cache,
    nowMs: clock.nowMs(),
  }
}
