/** Sends callbacks again in SQLite: they become due. */
import type { FailedFilter, Replay } from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import type { OpenFile } from './open-file.ts'
import { write } from './operation.ts'

export const callbackReplayOperations = {
  replayCallback: write((file: OpenFile, jobId: string, { nowMs, retentionMs }: Expiry): Replay => {
    const row = file.prepare(FIND).get(jobId, nowMs, retentionMs)
    if (!row) return 'unknown'
    if (row.under_way) return 'in progress'
    file.prepare(REPLAY).run(nowMs, jobId)
    return 'replayed'
  }),

  replayFailedCallbacks: write(
    (file: OpenFile, { account, limit }: FailedFilter, { nowMs, retentionMs }: Expiry): number =>
      Number(file.prepare(REPLAY_FAILED).run(nowMs, limit, retentionMs, account ?? null).changes),
  ),
}

/** Whether the job can still be read, as `expiresAtMs` decides it. */
const readable = (nowMs: string, retentionMs: string) =>
  `j.settled_at_ms + max(${retentionMs}, j.cache_ttl_s * 1000) > ${nowMs}`

/** ?1 now. They join the retries, so that many of them delay no new one. */
const DUE_AGAIN = `node = null, due_at_ms = ?1, owed_since_ms = ?1, tries = 0, lane = 1, delivered_at_ms = null,
  failed_at_ms = null`

const FIND = `
  select c.under_way from jobs j join callbacks c on c.seq = j.seq
  where j.id = ?1 and (c.due_at_ms is not null or ${readable('?2', '?3')})`
const REPLAY = `update callbacks set ${DUE_AGAIN} where seq = (select seq from jobs where id = ?2)`
const REPLAY_FAILED = `
  update callbacks set ${DUE_AGAIN} where seq in (
    select c.seq from callbacks c indexed by callbacks_failed join jobs j on j.id = c.job_id
    where c.failed_at_ms < ?1 and ${readable('?1', '?3')} and (?4 is null or c.account = ?4) order by c.seq limit ?2
  )`
