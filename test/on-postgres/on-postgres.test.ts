/** That the twins here do what they are for: every test file that starts a Parley in its own process runs on Postgres, too. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { startParley, temporaryFolder } from '../parley.ts'
import { onPostgres } from './on-postgres.ts'

const HERE = dirname(fileURLToPath(import.meta.url))
const ABOVE = dirname(HERE)

const originals = found(
  [
    'client/*.test.ts',
    'http/**/*.test.ts',
    'hostile/*.test.ts',
    'callbacks.test.ts',
    // Of the dashboard, which costs seconds a file, the pages that show and change what is stored.
    'browser/{live,jobs,stepping-in}.test.ts',
  ],
  ABOVE,
)

test('no test file is left without a twin', () => {
  assert.ok(originals.length > 10)
  const ours = found(['**/*.test.ts'], HERE)
  assert.deepEqual(
    ours.filter((path) => path !== 'on-postgres.test.ts'),
    originals,
  )
})

test('a twin runs the file that it is named after', () => {
  for (const path of originals) assert.equal(readFileSync(join(HERE, path), 'utf8'), twinOf(path))
})

onPostgres(async () => {
  test('a Parley is on Postgres, and so is the next one on the same folder', async (t) => {
    const folder = await temporaryFolder(t)
    const first = await startParley(t, { folder })
    assert.equal(first.store.shared, true)
    await first.key('user_max', 'somebody')
    await first.stop()
    const [next, other] = [await startParley(t, { folder }), await startParley(t)]
    assert.deepEqual(await Promise.all([next, other].map(({ store }) => store.hasAccounts())), [true, false])
  })
})

/** From the folder, in order, with slashes. */
function found(patterns: string[], folder: string): string[] {
  const paths = globSync(patterns, { cwd: folder })
  return paths.map((path) => path.replaceAll(sep, '/')).sort()
}

function twinOf(path: string): string {
  const folder = dirname(join(HERE, path))
  const wayTo = (file: string) => {
    const way = relative(folder, file).replaceAll(sep, '/')
    return way.startsWith('.') ? way : `./${way}`
  }
  const lines = [
    `import { onPostgres } from '${wayTo(join(HERE, 'on-postgres.ts'))}'`,
    '',
    `onPostgres(() => import('${wayTo(join(ABOVE, path))}'))`,
    '',
  ]
  return lines.join('\n')
}
