/** Locks a run, so that two `parley batch` processes cannot work on it. The operating system releases the lock of a killed process. */
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CommandError } from '../command-error.ts'

/** The lock is an exclusive SQLite transaction on a small file, because Node has no flock. Returns a function that unlocks. */
export function lockRun(path: string): () => void {
  const file = `${path}.lock`
  let db: DatabaseSync
  try {
    db = new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw new CommandError(
      `Cannot create ${file}: ${(error as Error).message}. Check that the folder of --out exists and is writable.`,
    )
  }
  try {
    db.exec('pragma journal_mode = delete; begin exclusive')
  } catch (error) {
    db.close()
    if (!/locked/.test((error as Error).message)) throw error
    throw new CommandError(
      'Another parley batch process is working on this run. Wait until it has finished, or stop it.',
    )
  }
  return () => {
    rmSync(file, { force: true })
    db.close()
  }
}
