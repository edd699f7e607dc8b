/**
 * Reads a database file without changing it: checks that it is an undamaged database of Parley, and summarizes its contents.
 */
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Status } from '../../job/job.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { MIGRATIONS } from './migrations.ts'
import { BUSY_TIMEOUT_MS } from './opening.ts'
import { newerSchema, schemaVersion } from './schema.ts'

export interface DatabaseSummary {
  readonly bytes: number
  readonly schema: number
  /** How many migrations the next start will apply. */
  readonly schemaSteps: number
  readonly accounts: number
  readonly keys: number
  readonly jobs: Readonly<Record<Status, number>>
  readonly callbacksOwed: number
  /** The time is null if there are no jobs. */
  readonly newestJobAtMs: number | null
}

/**
 * Opens a file, which the caller must close. Throws a `DatabaseProblem` if the tables are not those of Parley, or if a newer
 * version of Parley wrote the file. If SQLite cannot read the file, its error is thrown.
 */
export function openReadOnly(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  try {
    const schema = schemaVersion(db)
    if (schema === 0) throw new DatabaseProblem(`${path} is not a database of Parley.`)
    if (schema > MIGRATIONS.length) throw newerSchema(schema)
    // The version alone proves nothing, because other programs number their schemas, too.
    const tables = db.prepare(
      `select count(*) as found from sqlite_schema where type = 'table' and name in ('accounts', 'keys', 'jobs')`,
    )
    if (Number(tables.get()?.found) !== 3) throw new DatabaseProblem(`${path} is not a database of Parley.`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Returns the first fault in the file, or null. Takes long for a large file, because SQLite reads all of it. */
export function faultOf(db: DatabaseSync): string | null {
  const [row] = db.prepare('pragma integrity_check(1)').all()
  const found = String(row?.integrity_check)
  return found === 'ok' ? null : found
}

/** Also works for files with the schema of any earlier version. */
export function summaryOf(db: DatabaseSync, path: string): DatabaseSummary {
  const numberOf = (sql: string) => Number(db.prepare(sql).get()?.number)
  const byStatus = db.prepare('select status, count(*) as jobs from jobs group by status').all()
  const jobs = { pending: 0, assigned: 0, completed: 0, failed: 0 }
  const newest = db.prepare('select created_at_ms from jobs order by id desc limit 1').get()
  const schema = schemaVersion(db)
  return {
    bytes: statSync(path).size,
    schema,
    schemaSteps: MIGRATIONS.length - schema,
    accounts: numberOf('select count(*) as number from accounts'),
    keys: numberOf('select count(*) as number from keys'),
    jobs: { ...jobs, ...Object.fromEntries(byStatus.map((row) => [row.status, Number(row.jobs)])) },
    callbacksOwed: numberOf('select count(*) as number from callbacks where due_at_ms is not null'),
    newestJobAtMs: newest ? Number(newest.created_at_ms) : null,
  }
}

export function holdsAnything(db: DatabaseSync): boolean {
  const row = db.prepare(
    'select exists (select 1 from accounts) as accounts, exists (select 1 from jobs) as jobs',
  )
  return Object.values(row.get() ?? {}).includes(1)
}
