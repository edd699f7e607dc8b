/** Gives tests of backup and restore temporary folders, and all rows of a database file. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { WriteOptions } from '../../src/store/sqlite/backup.ts'
import type { Lifetime } from '../parley.ts'

export async function folderForTest(t: Lifetime): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-backup-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export function quietly(over: Partial<WriteOptions> = {}): WriteOptions {
  return { force: false, signal: new AbortController().signal, onProgress: () => {}, ...over }
}

export function contentsOf(file: string): Readonly<Record<string, unknown[]>> {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    const tables = db.prepare(`select name from sqlite_schema where type = 'table' order by name`).all()
    const rows = tables.map(({ name }) => [String(name), db.prepare(`select * from "${name}"`).all()])
    return Object.fromEntries(rows)
  } finally {
    db.close()
  }
}
