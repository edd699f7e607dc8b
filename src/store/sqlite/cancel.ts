/**
 * Cancels jobs in SQLite. Commands cancel jobs in their own process, so the table `cancelled_jobs` informs the server which
 * executions to stop.
 */
import type { Usage } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import { CANCELLED_RECEIPT_JSON, pricedUsageJson } from '../../job/results-without-call.ts'
import { type Claim, MAX_CANCELLED } from '../node-store.ts'
import type { CancelledOutcome } from '../operator-store.ts'
import { numberOf, textOf } from '../rows.ts'
import { raw, type Sql, type Steps, sql } from '../sql.ts'
import { outcomeBytes } from '../stored-bytes.ts'
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'
import { ADD_TO_QUOTAS, ADD_TO_USAGE, MAX_TOKENS } from './sums.ts'

export function* cancel(condition: Sql, outcome: CancelledOutcome): Steps<number> {
  const { errorJson, usageJson, nowMs } = outcome
  const ended = yield sql`
    update jobs set status = 'failed', settled_at_ms = ${nowMs}, turn = null, node = null
    where ${condition} and settled_at_ms is null returning id`
  if (ended.length === 0) return 0
  const jobs = sql`jobs where id in (select value from json_each(${ended.map((row) => textOf(row, 'id'))}))`
  yield sql`insert into outcomes (seq, error, usage, receipt)
    select seq, ${errorJson}, case when reserved is null then ${usageJson} else ${pricedUsageJson(usageJson)} end, ${CANCELLED_RECEIPT_JSON} from ${jobs}`
  yield sql`insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms)
    select seq, id, account, ${nowMs}, ${nowMs} from ${jobs} and has_callback`
  const { calls, input_tokens, output_tokens, cost }: Usage = JSON.parse(usageJson)
  yield sql`${raw(ADD_TO_USAGE.insert)}
    select account, ${monthOf(nowMs)}, model, count(*), count(*), 0, count(*) * ${calls}, count(*) * ${Math.min(input_tokens, MAX_TOKENS)},
      count(*) * ${Math.min(output_tokens, MAX_TOKENS)}, sum(coalesce(${cost ?? null}, case when reserved is not null then 0 end))
    from ${jobs} group by account, model ${raw(ADD_TO_USAGE.onConflict)}`
  yield sql`${raw(ADD_TO_QUOTAS.insert)}
    select account, -count(*), count(*) * ${outcomeBytes(null, errorJson, CANCELLED_RECEIPT_JSON)}, -ifnull(sum(reserved), 0)
    from ${jobs} group by account ${raw(ADD_TO_QUOTAS.onConflict)}`
  yield sql`insert or replace into cancelled_jobs (job_id, attempt) select id, attempt from ${jobs}`
  return ended.length
}

export const cancelledOperations = {
  takeCancelled: write((file: ServedFile, _node: string): Claim[] => {
    const rows = file.prepare(TAKE_CANCELLED).all(MAX_CANCELLED)
    // A cancellation does not change the counts, because a command may run it in its own process.
    if (rows.length > 0) file.queue.recount(file)
    return rows.map((row) => ({ jobId: textOf(row, 'job_id'), attempt: numberOf(row, 'attempt') }))
  }),
}

const TAKE_CANCELLED = `
  delete from cancelled_jobs where job_id in (select job_id from cancelled_jobs order by job_id limit ?)
  returning job_id, attempt`
