/** What must hold after every run, or its figures are worth nothing: looked up in the database file itself. */
import { DatabaseSync } from 'node:sqlite'

export class GateFailed extends Error {
  override readonly name = 'GateFailed'
}

/**
 * Every job is completed, has one outcome, is held by nobody and waits for nobody; and every id that a caller was given
 * is one of them, given once.
 * @param answers how many jobs callers were promised; null where some promises may have been lost on their way to them
 */
export function eachSettledOnce(path: string, jobIds: readonly string[], answers: number | null): number {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const count = (sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0])
    const jobs = count('select count(*) from jobs')
    const settled = count(
      `select count(*) from jobs j join outcomes o on o.seq = j.seq
       where j.status = 'completed' and j.turn is null and j.node is null and j.settled_at_ms is not null`,
    )
    const outcomes = count('select count(*) from outcomes')
    hold(settled === jobs, `${jobs} jobs are stored, but ${settled} of them are settled in every respect`)
    hold(outcomes === jobs, `${jobs} jobs are stored, and ${outcomes} outcomes`)
    if (answers !== null) hold(jobs === answers, `${answers} answers were given, and ${jobs} jobs are stored`)
    const stored = new Set(
      db
        .prepare('select id from jobs')
        .all()
        .map(({ id }) => String(id)),
    )
    const given = new Set(jobIds)
    hold(given.size === jobIds.length, `${jobIds.length - given.size} ids were given twice`)
    const lost = jobIds.filter((id) => !stored.has(id))
    hold(lost.length === 0, `${lost.length} ids were given for jobs that are not stored, such as ${lost[0]}`)
    return jobs
  } finally {
    db.close()
  }
}

export function hold(holds: boolean, otherwise: string): void {
  if (!holds) throw new GateFailed(otherwise)
}

/** Jobs without an outcome in the file of a running server. */
export function unsettled(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return Number(db.prepare('select count(*) as n from jobs where settled_at_ms is null').get()?.n)
  } finally {
    db.close()
  }
}
