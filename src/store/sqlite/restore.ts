/** Replaces a database file with a backup, and keeps the old file under another name. */
import { chownSync, existsSync, linkSync, realpathSync, renameSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Restored, RestoreOptions } from '../backup.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { holdsAnything, openReadOnly } from './database-summary.ts'
import { lockForRestoring } from './file.ts'
import { takeSnapshot } from './snapshot.ts'

/**
 * The backup is read as a database is, not as bytes: so a copy of a whole data folder is restored with what is in its
 * write-ahead log, and a damaged backup replaces nothing.
 */
export async function restoreFile(backup: string, path: string, options: RestoreOptions): Promise<Restored> {
  if (!statSync(backup, { throwIfNoEntry: false })?.isFile())
    throw new DatabaseProblem(`There is no file ${backup}.`)
  const lock = lockForRestoring(path)
  try {
    // The lock is next to the name that servers use, everything else next to the file itself.
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

/** A file that cannot be read may hold anything. */
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

/** A backup is often restored by root, for a server that runs as another user. */
function giveToOwnerOf(path: string, made: readonly string[]): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(existsSync(path) ? path : dirname(path))
  for (const file of made) chownSync(file, uid, gid)
}

/**
 * The write-ahead log first, since an old one would corrupt a new file; the old file keeps its name until the new one replaces
 * it, if the file system has links.
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
