/** Keeps a second `parley batch` off the same run. The lock ends with the process, however that ends. */
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CommandError } from '../command-error.ts'

/** Node has no flock: it is an exclusive transaction on a small file. Returns what lets go of it. */
export function lockRun(path: string): () => void {
  const file = `${path}.lock`
  let db: DatabaseSync
  try {
    db = new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw new CommandError(`${file} cannot be made: ${(error as Error).message}. Check the folder of --out.`)
  }
  try {
    db.exec('pragma journal_mode = delete; begin exclusive')
  } catch (error) {
    db.close()
    if (!/locked/.test((error as Error).message)) throw error
    throw new CommandError('Another parley batch is at work on this run. Let it end, or stop it first.')
  }
  return () => {
    rmSync(file, { force: true })
    db.close()
  }
}
