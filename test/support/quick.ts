/**
 * `npm run test:quick` runs the tests that need no Postgres, browser, separate processes of the program or compiled clients,
 * and that do not simulate hours or long outages, count costs, or try thousands of random requests or histories. Tests for both
 * stores run on SQLite.
 *
 *     npm run test:quick
 *     npm run test:quick -- --test-name-pattern=idempotency
 *
 * There is one process per core, which takes the next file when it has finished one. With options such as a name pattern, each
 * process gets a fixed part of the files instead: `quick-process.ts` runs files inside a test, which a pattern would not
 * select. Such a process must be forced to exit, because the hooks of a file do not run if none of its tests is selected, and
 * what the file has opened stays open.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'
import { compileCache } from './compile-cache.ts'
import { temporaryFiles } from './temporary-files.ts'
import { CLONE, reaches, testFiles } from './test-files.ts'

/** Files that match this, or import a file that does, are too slow. */
const SLOW =
  /^(src\/store\/sqlite\/locked-file\.test\.ts$)|^test\/(postgres\/|browser\/|generators\/|hostile\/|long\/|process\/server-process\.ts$|patience-backlog\.test\.ts$|simulation\/simulation\.test\.ts$|json-schema\/oracle\.test\.ts$|counts\/counts\.test\.ts$|http\/(every-request-ends|memory|patience)\.test\.ts$)/

const files = testFiles().filter((file) => !reaches(file, (path) => SLOW.test(path)))
const SUMMARY = /^ℹ (tests|pass|fail|skipped) (\d+)$/gm
const FILES = 'test/support/quick-process.ts'

const options = process.argv.slice(2)
const compiled = compileCache()
const temporary = temporaryFiles()
const waiting = [...files]

/**
 * Runs a fixed part of the files in one process, or those that the process requests. Resolves with the output when it has
 * ended.
 */
async function run(part: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  const selected =
    options.length > 0 ? ['--test-timeout=300000', '--test-force-exit', ...options, ...part] : [FILES]
  const all = ['--test', '--test-isolation=none', '--test-reporter=spec', ...selected]
  const child = spawn(process.execPath, all, {
    cwd: CLONE,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, ...temporary.env, TEST_STORE: 'sqlite', NODE_COMPILE_CACHE: compiled },
  })
  child.on('message', () => child.send({ file: waiting.shift() ?? null }))
  const { stdout } = child
  const [output, [code]] = await Promise.all([stdout ? text(stdout) : '', once(child, 'exit')])
  return { code: code ?? 1, output }
}

const processes = Math.min(availableParallelism(), 4)
const results = await Promise.all(
  Array.from({ length: processes }, (_, part) => run(files.filter((_, at) => at % processes === part))),
)
const totals = new Map<string, number>()
for (const { output } of results) {
  process.stdout.write(output)
  for (const [, name = '', count] of output.matchAll(SUMMARY)) {
    totals.set(name, (totals.get(name) ?? 0) + Number(count))
  }
}
const summary = [...totals].map(([name, count]) => `${name} ${count}`).join(', ')
process.stdout.write(`\nIn all: ${summary}\n`)
temporary.remove()
process.exitCode = Math.max(...results.map(({ code }) => code))
