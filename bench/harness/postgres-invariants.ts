/** Checks in Postgres what must hold after every run, as `invariants.ts` does in SQLite. */
import { assertThat } from './invariants.ts'
import type { Postgres } from './postgres.ts'

/**
 * Asserts that every job is completed, has one outcome and is not open. Asserts that every ID that a caller received belongs to
 * one job and was returned once.
 * @param answers the number of jobs that callers were promised, or null if some responses may have been lost in transit
 */
export async function assertEachSettledOnceOnPostgres(
  postgres: Postgres,
  jobIds: readonly string[],
  answers: number | null,
): Promise<number> {
  const jobs = await postgres.number('select count(*) from jobs')
  const outcomes = await postgres.number('select count(*) from outcomes')
  const settled = await postgres.number(
    `select count(*) from jobs join outcomes using (id) where outcomes.status = 'completed'`,
  )
  const open = await postgres.number('select count(*) from open_jobs')
  if (answers !== null) assertThat(jobs === answers, `${answers} jobs were promised, and ${jobs} are stored`)
  assertThat(settled === jobs, `${jobs} jobs are stored, and ${settled} of them are completed`)
  assertThat(outcomes === jobs, `${jobs} jobs are stored, and ${outcomes} outcomes`)
  assertThat(open === 0, `${open} jobs are open after the last was settled`)
  const rows = await postgres.query<{ id: string }>('select id from jobs')
  const stored = new Set(rows.map(({ id }) => id))
  assertThat(new Set(jobIds).size === jobIds.length, 'an id was given twice')
  const lost = jobIds.filter((id) => !stored.has(id))
  assertThat(
    lost.length === 0,
    `${lost.length} ids were given for jobs that are not stored, such as ${lost[0]}`,
  )
  return jobs
}
