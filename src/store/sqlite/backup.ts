/** Backs up a database file while a server may be using it, and replaces a database with a backup. */

import { randomBytes } from 'node:crypto'
import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../../module-url.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { syncFolderOf } from '../sync-folder.ts'
import { type DatabaseSummary, holdsAnything, openReadOnly } from './database-summary.ts'
import { lockForRestoring } from './opening.ts'
import type { SnapshotResult, VacuumTask } from './vacuum-thread.ts'

export interface WriteOptions {
  readonly force: boolean
  /** An abort removes the unfinished file. The thread that writes the file is not stopped. */
  readonly signal: AbortSignal
  readonly onProgress: (bytes: number) => void
}

export interface RestoreOptions extends WriteOptions {
  readonly nowMs: number
}

export interface Restored {
  readonly summary: DatabaseSummary
  /** The previous database has this path now; null if there was none. */
  readonly keptAside: string | null
}

const SIBLINGS = ['', '-wal', '-shm', '-journal', '.lock', '.lock-journal', '.admin-token']

export async function backUpFile(
  path: string,
  target: string,
  options: WriteOptions,
): Promise<DatabaseSummary> {
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

/**
 * Replaces the database with a backup, and keeps the old file under another name. SQLite reads the backup, instead of copying
 * its bytes. So the write-ahead log of a copied data folder is included, and a damaged backup replaces nothing.
 */
export async function restoreFile(backup: string, path: string, options: RestoreOptions): Promise<Restored> {
  if (!statSync(backup, { throwIfNoEntry: false })?.isFile())
    throw new DatabaseProblem(`There is no file ${backup}.`)
  const lock = lockForRestoring(path)
  try {
    // Servers lock the configured path. If that path is a link, the other files are next to the file that the link points to.
    const place = existsSync(path) ? realpathSync(path) : path
    if (realpathSync(backup) === place) throw new DatabaseProblem(`${backup} is the database itself.`)
    if (!options.force && holdsSomething(place)) {
      throw new DatabaseProblem(
        `${path} holds accounts or jobs, or cannot be read. With --force, the backup replaces it, and the old file is kept next to it as ${basename(place)}.replaced-TIME.`,
      )
    }
    const snapshot = await takeSnapshot(backup, place, options)
    try {
      giveToOwnerOf(place, [snapshot.file, `${path}.lock`])
      const keptAside = putAside(place, options.nowMs)
      snapshot.putInPlace()
      return { summary: snapshot.summary, keptAside }
    } catch (error) {
      snapshot.remove()
      throw error
    }
  } finally {
    lock.close()
  }
}

/** Returns true for a file that cannot be read, because that file may contain data, too. */
function holdsSomething(path: string): boolean {
  if (sizeOf(path) === 0) return sizeOf(`${path}-wal`) > 0
  try {
    const db = openReadOnly(path)
    try {
      return holdsAnything(db)
    } finally {
      db.close()
    }
  } catch {
    return true
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Root often restores a backup for a server that runs as another user. Without this, that server could not open the new files.
 */
function giveToOwnerOf(path: string, made: readonly string[]): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(existsSync(path) ? path : dirname(path))
  for (const file of made) chownSync(file, uid, gid)
}

/**
 * Renames the old database and its logs. The write-ahead log must be renamed first, because SQLite would apply an old log to
 * the new file. With a hard link, the database also keeps its name until the new file replaces it.
 */
function putAside(path: string, nowMs: number): string | null {
  const aside = `${path}.replaced-${new Date(nowMs).toISOString().replaceAll(':', '-')}`
  const logs = ['-wal', '-journal', '-shm'].filter((end) => existsSync(path + end))
  for (const end of logs) renameSync(path + end, aside + end)
  if (!existsSync(path)) return logs.length > 0 ? aside : null
  try {
    linkSync(path, aside)
  } catch {
    renameSync(path, aside)
  }
  return aside
}

const PROGRESS_MS = 500

interface Snapshot {
  readonly summary: DatabaseSummary
  /** The temporary file is in the folder of the final one, because a rename to another file system would fail. */
  readonly file: string
  /** Renames the file durably and atomically. */
  putInPlace(): void
  remove(): void
}

/**
 * Copies everything that was committed before the call into one file, and checks the copy. The copy has a temporary name until
 * `putInPlace`. Rejects with a `DatabaseProblem` for problems that the operator must fix, and then leaves no file behind.
 */
async function takeSnapshot(
  from: string,
  place: string,
  { signal, onProgress }: WriteOptions,
): Promise<Snapshot> {
  const file = `${place}.${randomBytes(4).toString('hex')}.partial`
  const remove = () => {
    for (const path of [file, `${file}-journal`]) rmSync(path, { force: true })
  }
  makePrivate(file)
  signal.addEventListener('abort', remove)
  const progress = setInterval(() => onProgress(sizeOf(file)), PROGRESS_MS)
  try {
    const result = await runInThread(from, file)
    signal.throwIfAborted()
    if ('problem' in result) throw new DatabaseProblem(result.problem)
    sync(file)
    const putInPlace = () => {
      renameSync(file, place)
      syncFolderOf(place)
    }
    return { summary: result.summary, file, putInPlace, remove }
  } catch (error) {
    remove()
    throw error
  } finally {
    clearInterval(progress)
  }
}

/** Only the owner can read the file, because it will contain conversations and signing secrets. */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    throw new DatabaseProblem(`${file} cannot be created: ${(error as Error).message}.`, { cause: error })
  }
}

function runInThread(from: string, to: string): Promise<SnapshotResult> {
  const workerData: VacuumTask = { from, to }
  const thread = new Worker(moduleURL('./vacuum-thread.ts', import.meta.url), { workerData })
  return new Promise((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('the thread of the snapshot exited unexpectedly')))
  })
}

function sync(file: string): void {
  const fd = openSync(file, 'r+')
  fsyncSync(fd)
  closeSync(fd)
}
