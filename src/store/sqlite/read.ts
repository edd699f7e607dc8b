/** Reads jobs in SQLite as their accounts may see them, and the length of the queue. */
import type { JobRecord } from '../../job/job-record.ts'
import { ANY_SIZE, hasExpired, IS_JOB, readEndedJob, readWithin } from '../job-rows.ts'
import { numberOf } from '../rows.ts'
import type { Depth, EndedJob, ReadJob } from '../store.ts'
import { resultBytesOf } from '../stored-bytes.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { read, sheddableWrite } from './operation.ts'
import { textOf } from './texts.ts'

export const readOperations = {
  /** Returns cells for `readJob`, because copying cells between threads costs less than copying an object. */
  read: read(
    (
      file: OpenFile,
      account: string,
      jobId: string,
      nowMs: number,
      retentionMs: number,
      maxBytes: number,
    ): ReadCells | null => {
      const row = file.prepare(READ).get(maxBytes, maxBytes, jobId, account)
      if (row === undefined || hasExpired(row, { nowMs, retentionMs })) return null
      const { status, createdAtMs, contentJson, errorJson, usageJson, omittedBytes } = readWithin(
        row,
        maxBytes,
      )
      return [status, createdAtMs, contentJson, errorJson, usageJson, omittedBytes]
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

  findMissing: read((file: OpenFile, jobIds: readonly string[]): string[] =>
    jobIds.filter((jobId) => file.prepare(EXISTS).get(jobId) === undefined),
  ),

  depth: read((file: ServedFile): Depth => {
    const { waiting, assigned } = file.queue
    const oldest = file.prepare(OLDEST).get()
    return { waiting, assigned, oldestCreatedAtMs: oldest ? Number(oldest.created_at_ms) : null }
  }),

  ping: sheddableWrite((file: ServedFile, nowMs: number): void => {
    file.prepare(PROBE).run(nowMs)
  }),
}

export type ReadCells = readonly [
  status: JobRecord['status'],
  createdAtMs: number,
  content: string | null,
  error: string | null,
  usage: string | null,
  omittedBytes: number,
]

export function readJob(id: string, cells: ReadCells): ReadJob {
  const [status, createdAtMs, contentJson, errorJson, usageJson, omittedBytes] = cells
  return { id, status, createdAtMs, contentJson, errorJson, usageJson, omittedBytes }
}

/** SQLite computes the size of a text without reading the text. */
const BYTES = resultBytesOf('o')
const CONTENT = textOf('o', 'content')
const READ = `
  select j.id, j.status, j.created_at_ms, j.settled_at_ms, j.cache_ttl_s, c.due_at_ms, ${BYTES} as bytes,
    case when ${BYTES} <= ? then ${CONTENT} end as content, case when ${BYTES} <= ? then o.error end as error, o.usage
  from jobs j left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  where j.id = ? and j.account = ? and ${IS_JOB}`
const EXISTS = 'select 1 from jobs where id = ?'
const SIZE_OF_ENDED = `select ${BYTES} as bytes from jobs j join outcomes o on o.seq = j.seq where j.id = ?`
const READ_ENDED = `
  select j.id, j.status, j.created_at_ms, ${CONTENT} as content, o.error, o.usage
  from jobs j join outcomes o on o.seq = j.seq where j.id = ?`
const OLDEST =
  'select created_at_ms from jobs indexed by jobs_by_age where turn is not null order by id limit 1'
const PROBE = 'update probe set at_ms = ?'
