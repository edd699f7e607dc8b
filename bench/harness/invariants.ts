/** Checks in the SQLite file what must hold after every run. The figures of a run that breaks an invariant are worthless. */
import { DatabaseSync } from 'node:sqlite'

export class InvariantBroken extends Error {
  override readonly name = 'InvariantBroken'
}

/**
 * Asserts that every job is completed, has one outcome, and is neither queued nor assigned. Asserts that every ID that a caller
 * received belongs to one job and was returned once.
 * @param answers the number of jobs that callers were promised, or null if some responses may have been lost in transit
 */
export function assertEachSettledOnce(
  path: string,
  jobIds: readonly string[],
  answers: number | null,
): number {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const count = (sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0])
    const jobs = count('select count(*) from jobs')
    const settled = count(
      `select count(*) from jobs j join outcomes o on o.seq = j.seq
       where j.status = 'completed' and j.turn is null and j.node is null and j.settled_at_ms is not null`,
    )
    const outcomes = count('select count(*) from outcomes')
    assertThat(
      settled === jobs,
      `${jobs} jobs are stored, but ${settled} of them are settled in every respect`,
    )
    assertThat(outcomes === jobs, `${jobs} jobs are stored, and ${outcomes} outcomes`)
    if (answers !== null)
      assertThat(jobs === answers, `${answers} answers were given, and ${jobs} jobs are stored`)
    const stored = new Set(
      db
        .prepare('select id from jobs')
        .all()
        .map(({ id }) => String(id)),
    )
    const given = new Set(jobIds)
    assertThat(given.size === jobIds.length, `${jobIds.length - given.size} ids were given twice`)
    const lost = jobIds.filter((id) => !stored.has(id))
    assertThat(
      lost.length === 0,
      `${lost.length} ids were given for jobs that are not stored, such as ${lost[0]}`,
    )
    return jobs
  } finally {
    db.close()
  }
}

/** Asserts that each of these IDs was returned once and belongs to a completed job. Other jobs do not matter. */
export function assertCompleted(path: string, jobIds: readonly string[]): void {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const given = new Set(jobIds)
    assertThat(given.size === jobIds.length, `${jobIds.length - given.size} ids were given twice`)
    const rows = db.prepare(`select id from jobs where status = 'completed'`).all()
    for (const { id } of rows) given.delete(String(id))
    assertThat(given.size === 0, `${given.size} answered jobs are not completed, such as ${[...given][0]}`)
  } finally {
    db.close()
  }
}

export function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new InvariantBroken(otherwise)
}
