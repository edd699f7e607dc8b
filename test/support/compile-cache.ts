/**
 * Provides the cache of compiled modules, which all processes of the tests share. Without it, each process would compile the
 * same sources: 1.5 s of CPU time for a process that starts Parley. The cache stays for later runs. Node replaces the entries
 * of changed files.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CLONE } from './test-files.ts'

const FOLDER = join(CLONE, 'node_modules/.cache/tests')

/**
 * Returns the cache folder of today, and removes those of other days. One permanent folder would fill up, because tests also
 * load modules from temporary folders.
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
