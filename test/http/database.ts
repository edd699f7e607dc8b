/** A second connection to the database file of a running Parley: to see what is stored, and to disturb it. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Lifetime, Parley } from '../parley.ts'

export function openDatabase(t: Lifetime, parley: Pick<Parley, 'folder'>): DatabaseSync {
  const db = new DatabaseSync(join(parley.folder, 'parley.db'), { timeout: 5000 })
  t.after(() => db.close())
  return db
}

/** How many jobs are stored. */
export function jobCount(db: DatabaseSync): number {
  return Number(db.prepare('select count(*) as jobs from jobs').get()?.jobs)
}

/** The identifiers of the stored jobs, oldest first. */
export function jobIds(db: DatabaseSync): string[] {
  const rows = db.prepare('select id from jobs order by id').all()
  return rows.map(({ id }) => String(id))
}
