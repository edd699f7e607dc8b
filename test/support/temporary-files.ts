/**
 * Decides where a run of the tests keeps its temporary files: in memory if there is enough, because the tests create tens of
 * thousands of files and wait for thousands of syncs. Files in memory survive kills, and no test turns off the power. TMPDIR
 * names another place, such as a disk; the long forms use the usual one.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** Several times the space that the tests need at once. */
const LEAST_BYTES = 4 * 2 ** 30

export interface TemporaryFiles {
  /** Variables for the environment of each process of the run. */
  readonly env: { readonly TMPDIR?: string }
  remove(): void
}

export function temporaryFiles(): TemporaryFiles {
  if (process.env.TMPDIR || !hasRoom()) return { env: {}, remove: () => {} }
  const folder = mkdtempSync(join(MEMORY, 'parley-tests-'))
  // Postgres may run as another user, which must be able to enter the folder.
  chmodSync(folder, 0o755)
  // After an interruption, a Postgres may still be shutting down in this folder.
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  return { env: { TMPDIR: folder }, remove }
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= LEAST_BYTES
  } catch {
    // This system has no such file system.
    return false
  }
}
