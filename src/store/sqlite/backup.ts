/** Backs up a database file into another, also while a server is running. */
import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { DatabaseSummary, WriteOptions } from '../backup.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { takeSnapshot } from './snapshot.ts'

/** The endings of files that belong to a database file. */
const SIBLINGS = ['', '-wal', '-shm', '-journal', '.lock', '.lock-journal', '.admin-token']

export async function backUpFile(
  path: string,
  target: string,
  options: WriteOptions,
): Promise<DatabaseSummary> {
  // Opening would make it, and an address that is mistyped would be backed up as an empty database.
  if (!existsSync(path)) throw new DatabaseProblem(`There is no database ${path} to back up.`)
  refuseUnfit(target, path)
  if (!options.force) refuseToReplace(target)
  const snapshot = await takeSnapshot(path, target, options)
  try {
    if (!options.force) refuseToReplace(target)
    snapshot.putInPlace()
  } catch (error) {
    snapshot.remove()
    throw error
  }
  return snapshot.summary
}

function refuseUnfit(target: string, path: string): void {
  const folder = dirname(target)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new DatabaseProblem(`There is no folder ${folder}. Make it first.`)
  }
  const there = lstatSync(target, { throwIfNoEntry: false })
  if (there?.isDirectory()) throw new DatabaseProblem(`${target} is a folder. Name a file in it.`)
  if (there && !there.isFile()) throw new DatabaseProblem(`${target} is not a regular file. Name another.`)
  const database = realpathSync(path)
  if (SIBLINGS.some((end) => join(realpathSync(folder), basename(target)) === `${database}${end}`)) {
    throw new DatabaseProblem(`${target} belongs to the database itself. Name another file.`)
  }
}

function refuseToReplace(target: string): void {
  if (!existsSync(target)) return
  throw new DatabaseProblem(`${target} already exists. Name another file, or replace it with --force.`)
}
