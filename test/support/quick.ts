/**
 * `npm run test:quick`: every test that needs neither Postgres, nor a browser, nor the program as a process of its own.
 * Tests that run on each store run on SQLite.
 *
 *     npm run test:quick
 *     npm run test:quick -- --test-name-pattern=idempotency
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { text } from 'node:stream/consumers'
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
  .sort()
const SUMMARY = /^ℹ (tests|pass|fail|skipped) (\d+)$/gm

/** Runs files in one process, which saves starting one for each file. Resolves with what it printed once it has ended. */
async function run(some: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  const options = [
    '--test',
    '--test-isolation=none',
    '--test-timeout=60000',
    '--test-global-setup=test/postgres/global-setup.ts',
    '--test-reporter=spec',
    ...process.argv.slice(2),
  ]
  const child = spawn(process.execPath, [...options, ...some], {
    cwd: CLONE,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TEST_STORE: 'sqlite' },
  })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
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
process.exitCode = Math.max(...results.map(({ code }) => code))
