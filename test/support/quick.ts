/**
 * `npm run test:quick`: every test that needs neither Postgres, nor a browser, nor the program as a process of its own.
 * Tests that run on each store run on SQLite.
 *
 *     npm run test:quick
 *     npm run test:quick -- --test-name-pattern=idempotency
 */
import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const CLONE = fileURLToPath(new URL('../..', import.meta.url))
const TESTS = ['src/**/*.test.ts', 'client/src/**/*.test.ts', 'test/**/*.test.ts']
/** A test that imports one of these, itself or by other files, takes longer. */
const SLOW = /^test\/(postgres\/|browser\/|process\/server-process\.ts$)/
const IMPORT = /^(?:import|export) .*?from '(\.[^']+)'/gms

const imports = new Map<string, readonly string[]>()

function importsOf(file: string): readonly string[] {
  const known = imports.get(file)
  if (known) return known
  const text = readFileSync(join(CLONE, file), 'utf8')
  const found = [...text.matchAll(IMPORT)].map(([, target = '']) =>
    relative(CLONE, resolve(CLONE, dirname(file), target)).replaceAll(sep, '/'),
  )
  imports.set(file, found)
  return found
}

/** `seen` collects the files that were looked into before. */
function isSlow(file: string, seen = new Set<string>()): boolean {
  if (SLOW.test(file)) return true
  if (seen.has(file)) return false
  seen.add(file)
  return importsOf(file).some((target) => isSlow(target, seen))
}

const files = globSync(TESTS, { cwd: CLONE })
  .map((file) => file.replaceAll(sep, '/'))
  .filter((file) => !isSlow(file))
const options = [
  '--test',
  `--test-concurrency=${availableParallelism()}`,
  '--test-timeout=60000',
  '--test-global-setup=test/postgres/global-setup.ts',
  ...process.argv.slice(2),
]
const child = spawn(process.execPath, [...options, ...files.sort()], {
  cwd: CLONE,
  stdio: 'inherit',
  env: { ...process.env, TEST_STORE: 'sqlite' },
})
child.once('exit', (code) => {
  process.exitCode = code ?? 1
})
