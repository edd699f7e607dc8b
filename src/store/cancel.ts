/** Cancels jobs regardless of the node that holds them: the SQL of both stores. */
import { cancelledErrorJson, usageOfCancelled } from '../job/cancelled.ts'
import { costOfInput } from '../job/cost.ts'
import { isJobId } from '../job/job-id.ts'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_USAGE_JSON,
  type CancelJobs,
  type Cancelled,
  type CancelledOutcome,
} from './admin-action-store.ts'
import type { Dialect } from './dialect.ts'
import type { OwnCancel } from './own-job-store.ts'
import { numberOf, textOf, textOrNull } from './rows.ts'
import { type Steps, sql, write } from './sql.ts'

export const cancelOperations = ({ anyOf, cancel, lockOpenJob, openJobs }: Dialect) => ({
  cancelJob: write(function* (jobId: string, nowMs: number): Steps<Cancelled> {
    if (!isJobId(jobId)) return 'unknown'
    if ((yield* cancel(sql`id = ${jobId}`, byOperator(nowMs))) > 0) return 'cancelled'
    return (yield sql`select 1 from jobs where id = ${jobId}`).length > 0 ? 'ended before' : 'unknown'
  }),

  // Repeats until no job is found, because jobs that change in between could otherwise be left out.
  cancelJobs: write(function* (which: CancelJobs): Steps<number> {
    const { running, limit, nowMs } = which
    for (let total = 0; ; ) {
      const picked = total < limit ? yield openJobs(which, limit - total) : []
      if (picked.length === 0) return total
      const ids = picked.map((row) => textOf(row, 'id'))
      // A job may have been claimed or released before its row was locked, so this checks the condition again.
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
    // The lock ensures that the stored usage is that of the run that is cancelled.
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
