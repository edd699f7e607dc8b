/** Fails queued jobs in SQLite that have waited too long for model servers, or whose deadline has passed. */
import { errorJson } from '../../job/job.ts'
import { overdueResult } from '../../job/results-without-call.ts'
import { createdBefore } from '../expiry.ts'
import { booleanOf, numberOf, textOf, textOrNull } from '../rows.ts'
import type { FailedJob, Overdue } from '../store.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { write } from './operation.ts'
import { reservedOf, storeOutcome } from './settle.ts'

export const overdueOperations = {
  failOverdue: write((file: ServedFile, overdue: Overdue, nowMs: number, limit: number): FailedJob[] => {
    const ids = find(file, overdue, nowMs, limit)
    return ids.map(([id]) => fail(file, String(id), nowMs, errorJson(overdue.error)))
  }),
}

function find(file: ServedFile, overdue: Overdue, nowMs: number, limit: number): Cell[][] {
  if (overdue.route === null) return file.cells(FIND_LATE, nowMs, limit)
  const { route, account, unavailableSinceMs, patienceMs } = overdue
  const which = [route, account, limit, unavailableSinceMs, nowMs - patienceMs] as const
  const statement = account === null ? FIND : FIND_OF_ACCOUNT
  return file.cells(statement, ...which, createdBefore(overdue, nowMs))
}

function fail(file: ServedFile, jobId: string, nowMs: number, error: string): FailedJob {
  const job = file.prepare(END).get(nowMs, jobId) ?? {}
  const { usage, receiptJson } = overdueResult(textOrNull(job, 'earlier'), job.reserved !== null)
  const [account, model] = [textOf(job, 'account'), textOf(job, 'model')]
  const hasCallback = booleanOf(job, 'has_callback')
  const seq = numberOf(job, 'seq')
  const ended = { openJobs: -1, bytes: 0, reserved: reservedOf(job) } as const
  const row = { seq, jobId, account, model, owesCallback: hasCallback, ...ended }
  storeOutcome(file, row, ['failed', null, error, JSON.stringify(usage), receiptJson, null, 0, nowMs])
  file.queue.endQueued()
  return { jobId, account, model, createdAtMs: numberOf(job, 'created_at_ms'), hasCallback, usage }
}

/**
 * Selects overdue jobs. A few jobs store since when they wait, because they were released to wait or have waited for a budget.
 * The others have waited since their creation.
 * @param queue selects the `id` of the queued jobs of the route, or of the account on the route
 */
const overdueIn = (queue: string) => `
  select * from (
    select id from jobs indexed by jobs_waiting
    where turn is not null and waits_since_ms is not null and route = ?1 and account = ifnull(?2, account)
      and max(waits_since_ms, ?4) - waited_ms <= ?5 limit ?3
  )
  union all
  select * from (
    select j.id from (${queue}) q cross join jobs j on j.id = q.id
    where q.id < ?6 and j.account = ifnull(?2, j.account) and j.waits_since_ms is null limit ?3
  )
  limit ?3`
export const FIND = overdueIn(`
      select id from jobs indexed by jobs_by_route where turn is not null and route = ?1`)
/** The index of lanes does not contain suspects, so two indexes are needed. */
export const FIND_OF_ACCOUNT = overdueIn(`
      select id from jobs indexed by jobs_in_lanes where turn is not null and deaths = 0 and account = ?2 and route = ?1
      union all
      select id from jobs indexed by jobs_suspected where turn is not null and deaths > 0 and route = ?1`)
const FIND_LATE = `
  select id from jobs indexed by jobs_by_deadline
  where turn is not null and deadline_ms is not null and deadline_ms <= ? limit ?`
const END = `
  update jobs set status = 'failed', settled_at_ms = ?, turn = null where id = ?
  returning seq, account, model, has_callback, created_at_ms, earlier, reserved`
