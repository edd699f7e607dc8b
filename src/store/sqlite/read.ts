/** Reads jobs in SQLite as their accounts may see them. */
import type { Expiry } from '../expiry.ts'
import { ANY_SIZE, hasExpired, readEndedJob, readWithin } from '../job-rows.ts'
import { numberOf } from '../rows.ts'
import type { EndedJob, ReadJob } from '../store.ts'
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

export const readOperations = {
  read: read(
    (
      file: OpenFile,
      account: string,
      jobId: string,
      expiry: Expiry,
      maxBytes: number = ANY_SIZE,
    ): ReadJob | null => {
      const row = file.prepare(READ).get(maxBytes, maxBytes, jobId, account)
      return row && !hasExpired(row, expiry) ? readWithin(row, maxBytes) : null
    },
  ),

  readEnded: read((file: OpenFile, jobIds: readonly string[], maxBytes: number = ANY_SIZE): EndedJob[] => {
    const ended: EndedJob[] = []
    let left = maxBytes
    for (const jobId of jobIds) {
      const size = file.prepare(SIZE_OF_ENDED).get(jobId)
      if (size === undefined) continue
      left -= numberOf(size, 'bytes')
      if (left < 0 && ended.length > 0) break
      const row = file.prepare(READ_ENDED).get(jobId)
      if (row) ended.push(readEndedJob(row))
    }
    return ended
  }),
}

/** SQLite knows the size of a text without reading it. */
const BYTES = 'coalesce(octet_length(o.content), 0) + coalesce(octet_length(o.error), 0)'
const READ = `
  select j.id, j.status, j.created_at_ms, j.settled_at_ms, j.cache_ttl_s, c.due_at_ms, ${BYTES} as bytes,
    case when ${BYTES} <= ? then o.content end as content, case when ${BYTES} <= ? then o.error end as error
  from jobs j left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  where j.id = ? and j.account = ?`
const SIZE_OF_ENDED = `select ${BYTES} as bytes from jobs j join outcomes o on o.seq = j.seq where j.id = ?`
const READ_ENDED = `
  select j.id, j.status, j.created_at_ms, o.content, o.error, o.usage
  from jobs j join outcomes o on o.seq = j.seq where j.id = ?`
