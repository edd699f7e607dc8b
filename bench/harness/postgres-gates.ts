/** What must hold after every run on Postgres, looked up in the database itself (as gates.ts does in a file). */
import { hold } from './gates.ts'
import type { Postgres } from './postgres.ts'

/**
 * Every job is completed, has one outcome and is open no more; and every id that a caller was given is one of them, given
 * once.
 * @param answers how many jobs callers were promised
 */
export async function eachSettledOnceThere(
  postgres: Postgres,
  jobIds: readonly string[],
  answers: number,
): Promise<void> {
  const jobs = await postgres.number('select count(*) from jobs')
  const outcomes = await postgres.number('select count(*) from outcomes')
  const settled = await postgres.number(
    `select count(*) from jobs join outcomes using (id) where outcomes.status = 'completed'`,
  )
  const open = await postgres.number('select count(*) from open_jobs')
  hold(jobs === answers, `${answers} jobs were promised, and ${jobs} are stored`)
  hold(settled === jobs, `${jobs} jobs are stored, and ${settled} of them are completed`)
  hold(outcomes === jobs, `${jobs} jobs are stored, and ${outcomes} outcomes`)
  hold(open === 0, `${open} jobs are open after the last was settled`)
  const rows = await postgres.query<{ id: string }>('select id from jobs')
  const stored = new Set(rows.map(({ id }) => id))
  hold(new Set(jobIds).size === jobIds.length, 'an id was given twice')
  const lost = jobIds.filter((id) => !stored.has(id))
  hold(lost.length === 0, `${lost.length} ids were given for jobs that are not stored, such as ${lost[0]}`)
}
