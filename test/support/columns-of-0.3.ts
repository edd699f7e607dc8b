/** The columns of new jobs that versions up to 0.3 store in Postgres. */
import type { Job } from '../../src/job/job.ts'
import { NEW_JOB_NAMES, newJobColumns } from '../../src/store/postgres/columns.ts'

const LATER = ['priority', 'deadline_ms', 'reserved']
const NAMES = NEW_JOB_NAMES.split(', ')

export function columnsOf03(jobs: readonly Job[]): unknown[] {
  return newJobColumns(jobs).filter((_, index) => !LATER.includes(NAMES[index] ?? ''))
}
