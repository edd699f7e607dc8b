/** The columns that versions up to 0.3 write to Postgres for new jobs. */
import type { Job } from '../../src/job/job.ts'
import { asItIs } from '../../src/store/compressed-text.ts'
import { NEW_JOB_NAMES, newJobColumns } from '../../src/store/postgres/columns.ts'

const LATER = ['priority', 'deadline_ms', 'reserved', 'messages_zstd', 'messages_bytes']
const NAMES = NEW_JOB_NAMES.split(', ')

export function columnsOf03(jobs: readonly Job[]): unknown[] {
  const messages = jobs.map(({ messagesJson }) => asItIs(messagesJson))
  return newJobColumns(jobs, messages).filter((_, index) => !LATER.includes(NAMES[index] ?? ''))
}
