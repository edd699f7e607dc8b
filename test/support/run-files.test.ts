import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { type Lifetime, temporaryFolder } from '../parley.ts'
import { groupsOf } from './groups.ts'
import { testFiles } from './test-files.ts'

const RUN_FILES = new URL('run-files.ts', import.meta.url).href
const START = `
  import test, { after } from 'node:test'
  globalThis.inUse = (globalThis.inUse ?? 0) + 1
  after(() => { globalThis.inUse -= 1 })
  await new Promise((resolve) => setImmediate(resolve))
  test('files do not overlap', (t) => t.assert.equal(globalThis.inUse, 1))`

async function outputOf(t: Lifetime, files: Readonly<Record<string, string>>, ...options: string[]) {
  const folder = await temporaryFolder(t)
  const paths = Object.entries(files).map(([name, text]) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  })
  const entry = join(folder, 'entry.mjs')
  const run = `await runFiles(${JSON.stringify(folder)}, ${JSON.stringify(paths)})`
  writeFileSync(entry, `import { runFiles } from ${JSON.stringify(RUN_FILES)}\n${run}`)
  // With this variable of the outer run, the inner run would report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const all = ['--test', '--test-reporter=spec', ...options, entry]
  return spawnSync(process.execPath, all, { env, encoding: 'utf8' })
}

test('each file is loaded after the one before it and its hooks have ended, and no test is counted twice', async (t) => {
  const { status, stdout } = await outputOf(t, { 'a.test.mjs': START, 'b.test.mjs': START })
  assert.equal(status, 0, stdout)
  assert.match(stdout, /▶ a\.test\.mjs\n {2}✔ files do not overlap .*\n✔ a\.test\.mjs/)
  assert.match(stdout, /▶ b\.test\.mjs\n {2}✔ files do not overlap .*\n✔ b\.test\.mjs/)
  assert.match(stdout, /^ℹ tests 2\nℹ suites 2\nℹ pass 2\nℹ fail 0$/m)
})

test('a failure names its file, whether a test fails or the file cannot be loaded, and the next file runs', async (t) => {
  const fails = `${START}\ntest('fails', () => { throw new Error('on purpose') })`
  const { status, stdout } = await outputOf(t, {
    'fails.test.mjs': fails,
    'broken.test.mjs': `throw new Error('not to be loaded')`,
    'works.test.mjs': START,
  })
  assert.equal(status, 1)
  assert.match(stdout, /failing tests:\n\ntest at .*fails\.test\.mjs:7:\d+\n✖ fails/)
  assert.match(stdout, /\n✖ broken\.test\.mjs .*\n {2}Error: not to be loaded/)
  assert.match(stdout, /✔ works\.test\.mjs/)
})

test('a name selects tests of every file', async (t) => {
  const { status, stdout } = await outputOf(
    t,
    { 'a.test.mjs': START, 'b.test.mjs': `${START}\ntest('chosen', () => {})` },
    '--test-name-pattern=chosen',
  )
  assert.equal(status, 0, stdout)
  assert.match(stdout, /^ℹ tests 1\n/m)
})

test('every test file is in one group', () => {
  const files = testFiles()
  assert.ok(files.length > 200)
  assert.deepEqual(groupsOf(files).flat().sort(), files)
})

test('a folder stands for the tests in it and in its folders', () => {
  assert.deepEqual(testFiles(['test/support']), testFiles(['test/support/**/*.test.ts']))
  assert.ok(testFiles(['test/', 'src/json-text']).length > 100)
  assert.deepEqual(testFiles(['test/no-such-folder']), [])
})
