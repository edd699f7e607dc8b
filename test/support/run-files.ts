/**
 * Runs test files one after the other in this process: each is a suite that has its path for a name, and its hooks are
 * those of the suite. A file is loaded when the one before it has ended.
 */
import { relative } from 'node:path'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'

/** For a file, and for each of its tests. Generous, for a busy machine: it only ends what hangs. */
const FILE_MS = 900_000

/**
 * @param folder what the names are relative to
 * @param files absolute paths
 */
export async function runFiles(folder: string, files: readonly string[]): Promise<void> {
  // A test may wait for what keeps no process alive, such as an idle thread.
  const alive = setInterval(() => {}, FILE_MS)
  for (const file of files) {
    const name = relative(folder, file).replaceAll('\\', '/')
    // A suite's promise is for its end, which its types do not say.
    await (describe(name, { timeout: FILE_MS }, async () => {
      await import(pathToFileURL(file).href)
    }) as unknown)
  }
  clearInterval(alive)
}
