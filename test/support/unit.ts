/**
 * `npm run test:unit` runs all tests, or those of some files, with Node's test runner.
 *
 *     npm run test:unit
 *     npm run test:unit -- --test-name-pattern=idempotency
 *     npm run test:unit -- 'src/queue/*.test.ts' test/http/reads.test.ts
 *
 * groups.ts decides which files share a process. For each group, an entry file imports its files, and each process of the
 * runner runs such an entry file. Node options are passed to the runner.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { groupsOf } from './groups.ts'
import { temporaryFiles } from './temporary-files.ts'
import { CLONE, TESTS, testFiles } from './test-files.ts'

const RUN_FILES = new URL('run-files.ts', import.meta.url).href
const OPTIONS = [
  '--test',
  // About half of the processes wait at any time, so there are twice as many as a small machine has cores.
  '--test-concurrency=4',
  // This is the timeout of a whole group. Its files, and their tests, have shorter ones.
  '--test-timeout=1800000',
  '--test-global-setup=test/postgres/global-setup.ts',
]

/** The runner takes files in the order of their names, so the names begin with numbers. */
function writeEntries(folder: string, groups: readonly (readonly string[])[]): string[] {
  return groups.map((group, at) => {
    const entry = join(folder, `group-${String(at).padStart(3, '0')}.mjs`)
    const files = JSON.stringify(group.map((file) => join(CLONE, file)))
    const run = `await runFiles(${JSON.stringify(CLONE)}, ${files})`
    writeFileSync(entry, `import { runFiles } from ${JSON.stringify(RUN_FILES)}\n${run}\n`)
    return entry
  })
}

const given = process.argv.slice(2)
const options = given.filter((one) => one.startsWith('-'))
const patterns = given.filter((one) => !one.startsWith('-'))
const files = testFiles(patterns.length > 0 ? patterns : TESTS)
if (files.length === 0) throw new Error(`There is no test file ${patterns.join(', ')}`)
const folder = mkdtempSync(join(tmpdir(), 'parley-groups-'))
const temporary = temporaryFiles()
const runner = spawn(process.execPath, [...OPTIONS, ...options, ...writeEntries(folder, groupsOf(files))], {
  cwd: CLONE,
  stdio: 'inherit',
  env: { ...process.env, ...temporary.env },
})
// Ctrl-C also interrupts the runner. This process waits for the end of the runner, and then removes the folders.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => runner.kill('SIGTERM'))
const [code] = await once(runner, 'exit')
rmSync(folder, { recursive: true, force: true })
temporary.remove()
process.exitCode = code ?? 1
