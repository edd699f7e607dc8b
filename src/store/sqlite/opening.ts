/** Opens a SQLite file with durable commits, and locks it for one server. */
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from 'node:fs'
import { dirname, sep } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { DatabaseProblem } from '../database-problem.ts'

/** How long a statement waits while another process, such as a command, holds the write lock. */
export const BUSY_TIMEOUT_MS = 5000
/** SQLite writes the log back into the file when the log has this many pages. Rarer checkpoints cost less in total. */
const CHECKPOINT_PAGES = 8000
const CACHE_KIB = 65_536

/**
 * Opens or creates the file. Every commit is on disk before it returns (`synchronous=FULL`). Only the owner can read a file or
 * folder that this creates, because the file contains the secrets that sign callbacks.
 */
export function openFile(path: string): DatabaseSync {
  try {
    return openDurably(path)
  } catch (error) {
    throw cannotOpen(path, error)
  }
}

function openDurably(path: string): DatabaseSync {
  makeFolder(dirname(path))
  const fresh = !existsSync(path)
  const db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
  if (fresh) chmodSync(path, 0o600)
  db.exec(`
    pragma journal_mode = wal;
    pragma synchronous = full;
    pragma wal_autocheckpoint = ${CHECKPOINT_PAGES};
    pragma cache_size = -${CACHE_KIB};
    pragma temp_store = memory;
  `)
  return db
}

/** Creates one folder at a time, because the recursive `mkdirSync` never returns if a folder cannot be created, as in /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return
  makeFolder(dirname(folder))
  mkdirSync(folder, { mode: 0o700 })
}

/** Throws a `DatabaseProblem` if the file could not be created. */
export function checkFolder(path: string): void {
  let folder = dirname(path)
  while (!existsSync(folder)) folder = dirname(folder)
  try {
    // With the separator, this also fails if a part of the path is a file instead of a folder.
    accessSync(folder + sep, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw cannotOpen(path, error)
  }
}

/**
 * Prevents a second server from using the file. The lock is an exclusive transaction on a small file next to the database,
 * because Node has no flock. The lock ends with the process, even after a crash. Keep a reference to the handle: its garbage
 * collection would release the lock.
 */
export function lockForServing(path: string): DatabaseSync {
  return lock(
    path,
    `Another Parley server is using ${path}. Stop it first, or give this one another DATABASE_URL.`,
  )
}

/** Takes the lock of `lockForServing` for a transfer, so that no server and no other transfer uses the file. */
export function lockForTransfer(path: string): DatabaseSync {
  return lock(
    path,
    `A Parley server, or another copy, is using ${path}. Stop it first. On SIGTERM a server finishes or releases its jobs.`,
  )
}

/** Takes the lock of `lockForServing` while a backup replaces the file. */
export function lockForRestoring(path: string): DatabaseSync {
  return lock(
    path,
    `A Parley server, or a copy, is using ${path}. Stop it first, so that it does not write to the file that is replaced.`,
  )
}

function lock(path: string, refusal: string): DatabaseSync {
  const file = `${path}.lock`
  let db: DatabaseSync
  try {
    makeFolder(dirname(path))
    db = new DatabaseSync(file, { timeout: 0 })
    restrictToOwner(file)
  } catch (error) {
    throw cannotOpen(file, error)
  }
  try {
    db.exec('pragma journal_mode = delete; begin exclusive')
    return db
  } catch (error) {
    db.close()
    if (error instanceof Error && /locked/.test(error.message)) throw new DatabaseProblem(refusal)
    throw error
  }
}

/**
 * Every process that can read the lock file can block the server by locking it. In earlier versions, everyone could read it.
 */
function restrictToOwner(file: string): void {
  try {
    chmodSync(file, 0o600)
  } catch (error) {
    // The file belongs to another user, who permits this one to write to it, so its permissions cannot and need not change.
    if ((error as { code?: string }).code !== 'EPERM') throw error
  }
}

function cannotOpen(path: string, error: unknown): DatabaseProblem {
  return new DatabaseProblem(
    `The database ${path} cannot be opened: ${(error as Error).message}. Check DATABASE_URL, the folder and its permissions.`,
  )
}
