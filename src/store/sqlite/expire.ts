/**
 * Ends what is over in SQLite: deletes expired data, in steps that are too small to delay other writes noticeably, and fails
 * overdue jobs.
 */
import { errorJson } from '../../job/job.ts'
import { leastJobId } from '../../job/job-id.ts'
import { overdueResult } from '../../job/results-without-call.ts'
import { purgeBatches } from '../batches.ts'
import { createdBefore, type Expiry } from '../expiry.ts'
import { fileOperations } from '../files.ts'
import { hasExpired } from '../job-rows.ts'
import { rerunOperations } from '../reruns.ts'
import { booleanOf, numberOf, textOf, textOrNull } from '../rows.ts'
import type { FailedJob, Overdue } from '../store.ts'
import { deleteJobs } from './delete.ts'
import { SQLITE } from './dialect.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { runSteps, write } from './operation.ts'
import { reservedOf, storeOutcome } from './settle.ts'

const { purgeFiles } = fileOperations(SQLITE)
const { forgetReruns } = rerunOperations(SQLITE)

const STEP = 400

export const expireOperations = {
  /** Runs one step. Returns whether another step may find work now. */
  expire: write((file: ServedFile, expiry: Expiry): boolean => {
    // Each step examines only the oldest responses. A response with a long TTL delays the deletion of later responses with a
    // shorter TTL, by at most an hour (SPEC §2.1).
    const responses = Number(file.prepare(DELETE_RESPONSES).run(STEP, expiry.nowMs).changes)
    const keys = Number(file.prepare(DELETE_KEYS).run(expiry.nowMs, STEP).changes)
    const jobs = expireJobs(file, expiry)
    runSteps(file, purgeBatches.steps(expiry.nowMs))
    const files = runSteps(file, purgeFiles.steps(expiry.nowMs))
    const reruns = runSteps(file, forgetReruns.steps(expiry))
    return reruns || files || responses >= STEP || keys >= STEP || jobs >= STEP
  }),
}

/**
 * Jobs that are younger than the retention cannot have expired, so this examines only older ones, in the order of their IDs.
 * The next step continues after the last row. So each round examines a row only once, even if the row cannot be deleted yet.
 */
function expireJobs(file: ServedFile, expiry: Expiry): number {
  const before = leastJobId(expiry.nowMs - expiry.retentionMs)
  const rows = file.prepare(OLD_JOBS).all(file.expiryCursor, before, STEP)
  const expired = rows.filter((row) => hasExpired(row, expiry))
  if (expired.length > 0) runSteps(file, deleteJobs(expired))
  const last = rows.at(-1)
  file.expiryCursor = last && rows.length === STEP ? textOf(last, 'id') : ''
  return rows.length
}

const DELETE_RESPONSES = `
  delete from kept_answers
  where seq in (select seq from kept_answers order by seq limit ?) and until_ms <= ?`
const DELETE_KEYS = `
  delete from idempotency where (account, key) in
    (select account, key from idempotency where until_ms <= ? order by until_ms limit ?)`
const OLD_JOBS = `
  select j.id, j.settled_at_ms, j.cache_ttl_s, c.due_at_ms
  from jobs j left join callbacks c on c.seq = j.seq
  where j.id > ? and j.id < ? and not exists (select 1 from batch_lines l where l.job_id = j.id) order by j.id limit ?`

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
