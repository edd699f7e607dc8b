/** Does what follows the settlement of a job: answers the pending response, notifies the callback dispatcher, counts and logs. */
import { errorJson, type Job } from '../job/job.ts'
import type { Settled } from '../store/store.ts'
import type { ExecutionResult } from './execution-result.ts'
import type { PendingResponses } from './pending-responses.ts'

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
