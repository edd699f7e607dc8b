/** Sends callbacks again in Postgres: they become due. */
import { isJobId } from '../../job/job-id.ts'
import type { CallbackRecords } from '../callback-store.ts'
import type { Database } from './database.ts'

export function callbackReplayOperations(
  database: Database,
): Pick<CallbackRecords, 'replayCallback' | 'replayFailedCallbacks'> {
  return {
    replayCallback: async (jobId, { nowMs, retentionMs }) => {
      if (!isJobId(jobId)) return 'unknown'
      const [row] = await database.query(REPLAY, [nowMs, retentionMs, jobId])
      if (!row) return 'unknown'
      return row.replayed ? 'replayed' : 'in progress'
    },

    replayFailedCallbacks: async ({ account, limit }, { nowMs, retentionMs }) => {
      const values = [nowMs, retentionMs, limit, account ?? null]
      return (await database.query(REPLAY_FAILED, values)).length
    },
  }
}

/** Whether the job can still be read, as `expiresAtMs` decides it. $1 now, $2 retention. */
const READABLE = 'o.settled_at_ms + greatest($2::bigint, j.cache_ttl_s * 1000) > $1::bigint'

/** $1 now. They join the retries, so that many of them delay no new one. */
const DUE_AGAIN = `node = null, due_at_ms = $1::bigint, owed_since_ms = $1::bigint, tries = 0, lane = 1, delivered_at_ms = null,
  failed_at_ms = null`

const REPLAY = {
  name: 'replay callback',
  text: `
  with found as (
    select c.job_id from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
    where c.job_id = $3::uuid and (c.due_at_ms is not null or ${READABLE})
  ),
  replayed as (
    update callbacks c set ${DUE_AGAIN} from found f where c.job_id = f.job_id and not c.under_way returning 1
  )
  select exists (select 1 from replayed) as replayed from found`,
}
/** What another replay has locked is skipped: it would use up the limit, and be found replayed once the lock is free. */
const REPLAY_FAILED = {
  name: 'replay failed callbacks',
  text: `
  with found as (
    select c.job_id from callbacks c join jobs j on j.id = c.job_id join outcomes o on o.id = c.job_id
    where c.failed_at_ms < $1::bigint and ${READABLE} and ($4::text is null or c.account = $4) order by c.job_id limit $3::bigint
    for update of c skip locked
  )
  update callbacks c set ${DUE_AGAIN} from found f where c.job_id = f.job_id and c.failed_at_ms is not null returning 1`,
}
