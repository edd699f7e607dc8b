/** Finds test files by their paths relative to the clone, and finds what they import, directly or indirectly. */
import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const CLONE = fileURLToPath(new URL('../..', import.meta.url))
/** These folders with the sources of the program also contain tests. */
export const SOURCE_FOLDERS: readonly string[] = ['src', 'client/src', 'json-schema/src']
export const TESTS: readonly string[] = [...SOURCE_FOLDERS, 'test'].map((folder) => `${folder}/**/*.test.ts`)

const IMPORT = /^(?:import|export) .*?from '(\.[^']+)'/gms

const imports = new Map<string, readonly string[]>()

/** @param patterns files relative to the clone. A folder stands for all tests in it */
export function testFiles(patterns = TESTS): string[] {
  const files = patterns.map((pattern) => (isFolder(pattern) ? `${pattern}/**/*.test.ts` : pattern))
  return globSync(files, { cwd: CLONE, exclude: ['**/node_modules/**'] })
    .map((file) => file.replaceAll(sep, '/'))
    .sort()
}

function isFolder(path: string): boolean {
  return statSync(join(CLONE, path), { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * Returns whether the file, or a file that it imports, matches.
 * @param isMeant gets a path relative to the clone
 * @param seen the files that were visited. This function adds to them
 */
export function reaches(file: string, isMeant: (file: string) => boolean, seen = new Set<string>()): boolean {
  if (isMeant(file)) return true
  if (seen.has(file)) return false
  seen.add(file)
  return importsOf(file).some((target) => reaches(target, isMeant, seen))
}

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
