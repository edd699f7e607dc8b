/** Reads jobs in SQLite as their accounts may see them. */
import type { JobRecord } from '../../job/job-record.ts'
import type { Expiry } from '../expiry.ts'
import { hasExpired, readEndedJob, readJobRecord } from '../job-rows.ts'
import type { EndedJob } from '../store.ts'
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

export const readOperations = {
  read: read((file: OpenFile, account: string, jobId: string, expiry: Expiry): JobRecord | null => {
    const row = file.prepare(READ).get(jobId, account)
    return row && !hasExpired(row, expiry) ? readJobRecord(row) : null
  }),

  readEnded: read((file: OpenFile, jobIds: readonly string[]): EndedJob[] =>
    jobIds.flatMap((jobId) => {
      const row = file.prepare(READ_ENDED).get(jobId)
      return row ? [readEndedJob(row)] : []
    }),
  ),
}

const READ = `
  select j.id, j.status, j.created_at_ms, j.settled_at_ms, j.cache_ttl_s, o.content, o.error, c.due_at_ms
  from jobs j left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  where j.id = ? and j.account = ?`
const READ_ENDED = `
  select j.id, j.status, j.created_at_ms, o.content, o.error, o.usage
  from jobs j join outcomes o on o.seq = j.seq where j.id = ?`
