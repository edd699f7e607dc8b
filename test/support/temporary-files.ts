/**
 * Decides where a test run keeps its temporary files: in memory if there is enough, because the tests create tens of thousands
 * of files and wait for thousands of syncs. Files in memory survive killed processes, and no test turns off the power. TMPDIR
 * can name a different place, such as a disk. The long forms use the system's usual place.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** Files are kept in memory only if this much space is free. The tests need a fraction of it at the same time. */
const LEAST_BYTES = 4 * 2 ** 30

export interface TemporaryFiles {
  readonly env: { readonly TMPDIR?: string }
  remove(): void
}

export function temporaryFiles(): TemporaryFiles {
  if (process.env.TMPDIR || !hasRoom()) return { env: {}, remove: () => {} }
  const folder = mkdtempSync(join(MEMORY, 'parley-tests-'))
  // Postgres may run as another user, who needs access to the folder.
  chmodSync(folder, 0o755)
  // After an interruption, a Postgres may still be writing to this folder while it shuts down, so removing it is retried.
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  return { env: { TMPDIR: folder }, remove }
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= LEAST_BYTES
  } catch {
    // This system has no file system in memory.
    return false
  }
}
