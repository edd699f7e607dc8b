/**
 * Tests which warnings npm prints when it installs this project. `.npmrc` hides warnings about the Node of the machine, which
 * are misleading because the project installs its own Node. No other warning may be hidden.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { devNull } from 'node:os'
import { delimiter, dirname, isAbsolute } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ownPath } from './process/packages.ts'

const run = promisify(execFile)
const CLONE = fileURLToPath(new URL('..', import.meta.url))

/** When a user installs the project, npm runs on this Node: the one that npm uses now, or else the first on the PATH. */
const OF_THE_MACHINE = process.env.npm_node_execpath ?? 'node'

async function install(node: string, ...options: readonly string[]): Promise<string> {
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))
  const path = [...(isAbsolute(node) ? [dirname(node)] : []), ...ownPath()].join(delimiter)
  const env = { ...Object.fromEntries(inherited), PATH: path, npm_config_userconfig: devNull }
  const ci = ['ci', '--dry-run', '--offline', '--ignore-scripts', ...options]
  const { stdout, stderr } = await run('npm', ci, { cwd: CLONE, env })
  return stdout + stderr
}

const warningsIn = (printed: string) => printed.split('\n').filter((line) => /\bwarn/i.test(line))

test('npm ci prints no warning', async () => {
  assert.deepEqual(warningsIn(await install(OF_THE_MACHINE)), [])
})

test('every warning that is hidden is about the Node of the machine', async () => {
  const warnings = warningsIn(await install(OF_THE_MACHINE, '--loglevel=warn'))
  assert.deepEqual(
    warnings.filter((line) => !line.startsWith('npm warn EBADENGINE')),
    [],
  )
})

test('the Node that the project installs suits every package', async () => {
  assert.deepEqual(warningsIn(await install(process.execPath, '--loglevel=warn')), [])
})
