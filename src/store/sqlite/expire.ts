/** Deletes what has expired in SQLite, in steps so small that no write waits long behind one. */
import { leastJobId } from '../../job/job-id.ts'
import { purgeBatches } from '../batches.ts'
import type { Expiry } from '../expiry.ts'
import { fileOperations } from '../files.ts'
import { hasExpired } from '../job-rows.ts'
import { rerunOperations } from '../reruns.ts'
import { textOf } from '../rows.ts'
import { deleteJobs } from './delete.ts'
import { SQLITE } from './dialect.ts'
import type { ServedFile } from './open-file.ts'
import { runSteps, write } from './operation.ts'

const { forgetReruns } = rerunOperations(SQLITE)

/** Rows of each kind that one step looks at. */
const STEP = 400

export const expireOperations = {
  /** Takes one step; returns whether another would find work now. */
  expire: write((file: ServedFile, expiry: Expiry): boolean => {
    // From the oldest on. One that is cached for long delays the shorter ones behind it by an hour at most (SPEC §2.1).
    const responses = Number(file.prepare(DELETE_RESPONSES).run(STEP, expiry.nowMs).changes)
    const keys = Number(file.prepare(DELETE_KEYS).run(expiry.nowMs, STEP).changes)
    const jobs = expireJobs(file, expiry)
    runSteps(file, purgeBatches.steps(expiry.nowMs))
    const files = runSteps(file, fileOperations.purgeFiles.steps(expiry.nowMs))
    const reruns = runSteps(file, forgetReruns.steps(expiry))
    return reruns || files || responses >= STEP || keys >= STEP || jobs >= STEP
  }),
}

/**
 * Jobs lie in the order of their creation, and none younger than the retention can have expired, so only the oldest rows are
 * looked at. Rows that cannot be deleted yet are passed over once a round, not once a step.
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
