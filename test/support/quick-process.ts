/**
 * One process of `npm run test:quick`: asks for a test file, runs it, and asks for the next, until there are none left. Each file
 * is a test with the tests of the file below it.
 */
import { once } from 'node:events'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

/** For a file, and for each of its tests. Generous, for a busy machine: it only ends what hangs. */
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
