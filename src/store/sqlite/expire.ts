/** Deletes expired data in SQLite, in steps that are too small to delay other writes noticeably. */
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
