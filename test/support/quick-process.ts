/**
 * Runs as one process of `npm run test:quick`: requests a test file, runs it, and requests the next one until none is left. Each
 * file is a test that contains the tests of the file.
 */
import { once } from 'node:events'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

/**
 * Applies to a file and to each of its tests. The timeout only has to end what hangs, so it is long enough for a busy machine.
 */
const FILE_MS = 300_000

async function nextFile(): Promise<string | null> {
  process.send?.('next')
  const [{ file }] = await once(process, 'message')
  return file
}

test('files', { timeout: Number.POSITIVE_INFINITY }, async (t) => {
  for (let file = await nextFile(); file !== null; file = await nextFile()) {
    const url = pathToFileURL(file).href
    await t.test(file, { timeout: FILE_MS }, async () => {
      await import(url)
    })
  }
})
