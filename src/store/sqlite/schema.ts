/** Migrates the schema of a SQLite file. */
import type { DatabaseSync } from 'node:sqlite'
import { DatabaseProblem } from '../database-problem.ts'
import { MIGRATIONS } from './migrations.ts'
import { openFile } from './opening.ts'

/** Returns how many migrations were applied. */
export function migrateFile(path: string): number {
  const db = openFile(path)
  try {
    return migrate(db)
  } finally {
    db.close()
  }
}

/** Applies the missing migrations in one transaction. Returns how many there were. */
export function migrate(db: DatabaseSync): number {
  db.exec('begin immediate')
  try {
    const version = schemaVersion(db)
    if (version > MIGRATIONS.length) throw newerSchema(version)
    for (const migration of MIGRATIONS.slice(version)) db.exec(migration)
    db.exec(`pragma user_version = ${MIGRATIONS.length}; commit`)
    return MIGRATIONS.length - version
  } catch (error) {
    // SQLite rolls back by itself after some errors, such as a full disk.
    if (db.isTransaction) db.exec('rollback')
    throw error
  }
}

/**
 * Drops indexes that only earlier versions use. Call this when a server starts, because then no earlier version uses the file.
 */
export function dropUnusedIndexes(db: DatabaseSync): void {
  db.exec(`
    drop index if exists jobs_in_line;
    drop index if exists jobs_waiting_by_account;
    drop index if exists jobs_that_died;
  `)
}

/** Returns the number of migrations that the file's schema includes; 0 for a new file. */
export function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare('pragma user_version').get()?.user_version)
}

export function newerSchema(version: number): DatabaseProblem {
  return new DatabaseProblem(
    `The database was written by a newer Parley (schema ${version}, this one knows ${MIGRATIONS.length}). Start that version, or a newer one.`,
  )
}
