/**
 * Runs test files one after the other in this process. Each is a suite named after its path, with the file's hooks, and is
 * loaded when the previous one has ended.
 */
import { relative } from 'node:path'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { startTimes } from './cpu-times.ts'
import { reuseThreads } from './reused-threads.ts'

/** The timeout of a file, and of each of its tests. It is long, because it must only end what hangs on a busy machine. */
const FILE_MS = 900_000

/**
 * @param folder the names are relative to it
 * @param files absolute paths
 */
export async function runFiles(folder: string, files: readonly string[]): Promise<void> {
  reuseThreads()
  // A test may wait for something that does not keep a process alive, such as an idle thread.
  const alive = setInterval(() => {}, FILE_MS)
  for (const file of files) {
    const name = relative(folder, file).replaceAll('\\', '/')
    const times = startTimes()
    // The promise of a suite resolves at its end, although its types do not show it.
    await (describe(name, { timeout: FILE_MS }, async () => {
      await import(pathToFileURL(file).href)
    }) as unknown)
    times(name)
  }
  clearInterval(alive)
}
