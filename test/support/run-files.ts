/**
 * Runs test files one after the other in this process. Each file becomes a suite with the hooks of the file. The suite's name
 * is the path of the file. A file is loaded when the previous one has ended.
 */
import { relative } from 'node:path'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { startTimes } from './cpu-times.ts'

/**
 * Applies to a file and to each of its tests. The timeout only has to end what hangs, so it is long enough for a busy machine.
 */
const FILE_MS = 900_000

/**
 * @param folder names of suites are relative to it
 * @param files absolute paths
 */
export async function runFiles(folder: string, files: readonly string[]): Promise<void> {
  // A test may wait for something that does not keep the process alive, such as an idle thread.
  const alive = setInterval(() => {}, FILE_MS)
  for (const file of files) {
    const name = relative(folder, file).replaceAll('\\', '/')
    const times = startTimes()
    // A suite returns a promise that resolves at its end, although its type does not show that.
    await (describe(name, { timeout: FILE_MS }, async () => {
      await import(pathToFileURL(file).href)
    }) as unknown)
    times(name)
  }
  clearInterval(alive)
}
