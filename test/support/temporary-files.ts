/**
 * Where a run of the tests keeps its temporary files: in memory if there is enough of it, because the tests create tens of
 * thousands of files and wait for thousands of syncs. A process that is killed loses nothing that it wrote there, and no test turns
 * off the power. TMPDIR names another place, such as a disk; the long forms use the usual one.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** Several times what the tests need at once. */
const LEAST_BYTES = 4 * 2 ** 30

export interface TemporaryFiles {
  /** What each process of the run adds to its environment. */
  readonly env: { readonly TMPDIR?: string }
  remove(): void
}

export function temporaryFiles(): TemporaryFiles {
  if (process.env.TMPDIR || !hasRoom()) return { env: {}, remove: () => {} }
  const folder = mkdtempSync(join(MEMORY, 'parley-tests-'))
  // Postgres may run as another user.
  chmodSync(folder, 0o755)
  // If the run was interrupted, a Postgres may still be shutting down in there.
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  return { env: { TMPDIR: folder }, remove }
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= LEAST_BYTES
  } catch {
    // Not on this system.
    return false
  }
}
