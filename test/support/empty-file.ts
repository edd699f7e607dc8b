/**
 * Makes a SQLite file with the empty tables of this version, for tests that start on a new database. Creating the tables takes
 * longer than what many tests do, so each process creates them once and then copies the file.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrateFile } from '../../src/store/sqlite/schema.ts'

let contents: Buffer | undefined

export function makeEmptyFile(path: string): void {
  contents ??= make()
  try {
    writeFileSync(path, contents, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error
  }
}

function make(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'parley-empty-'))
  const path = join(folder, 'parley.db')
  migrateFile(path)
  const bytes = readFileSync(path)
  rmSync(folder, { recursive: true })
  return bytes
}
