/**
 * Runs test files one after the other in this process: each is a suite named after its path, and its hooks are the suite's.
 * A file is loaded when the previous one has ended.
 */
import { relative } from 'node:path'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { startTimes } from './cpu-times.ts'

/** The timeout of a file, and of each of its tests. Generous, because it only has to end what hangs on a busy machine. */
const FILE_MS = 900_000

/**
 * @param folder what the names are relative to
 * @param files absolute paths
 */
export async function runFiles(folder: string, files: readonly string[]): Promise<void> {
  // A test may wait for something that does not keep a process alive, such as an idle thread.
  const alive = setInterval(() => {}, FILE_MS)
  for (const file of files) {
    const name = relative(folder, file).replaceAll('\\', '/')
    const times = startTimes()
    // The promise of a suite resolves at its end, which its types do not say.
    await (describe(name, { timeout: FILE_MS }, async () => {
      await import(pathToFileURL(file).href)
    }) as unknown)
    times(name)
  }
  clearInterval(alive)
}
