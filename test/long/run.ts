/**
 * `npm run test:long` runs every test in its long form, and writes a report of what was measured.
 *
 *     npm run test:long
 *     npm run test:long -- --report /tmp/kills.md test/process/kills.test.ts
 */
import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'
import { CLONE, TESTS } from '../support/test-files.ts'

/** Applies to each file and each test. A test may set its own. */
const TIMEOUT_MS = 2 * 3600_000

const { values, positionals } = parseArgs({
  options: { report: { type: 'string', default: 'test-report.md' } },
  allowPositionals: true,
})
const files = positionals.length > 0 ? positionals : TESTS
const child = spawn(
  process.execPath,
  [
    '--test',
    `--test-timeout=${TIMEOUT_MS}`,
    '--test-global-setup=test/postgres/global-setup.ts',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=./test/long/report.ts',
    `--test-reporter-destination=${values.report}`,
    ...files,
  ],
  { cwd: CLONE, stdio: 'inherit', env: { ...process.env, PARLEY_LONG: '1' } },
)
child.once('exit', (code) => {
  process.stdout.write(`The report is in ${values.report}\n`)
  process.exitCode = code ?? 1
})
