/**
 * The cache of compiled modules that all processes of the tests share. Without it, each process would strip and compile the same
 * sources: 1.5 CPU seconds for one that starts Parley. It stays for later runs; Node replaces entries of changed files.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CLONE } from './test-files.ts'

const FOLDER = join(CLONE, 'node_modules/.cache/tests')

/**
 * Returns a folder for today, and removes those of other days, because modules in temporary folders would fill a permanent one.
 */
export function compileCache(): string {
  const today = new Date().toISOString().slice(0, 10)
  const folder = join(FOLDER, today)
  mkdirSync(folder, { recursive: true })
  for (const day of readdirSync(FOLDER)) {
    if (day !== today) rmSync(join(FOLDER, day), { recursive: true, force: true })
  }
  return folder
}
