import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Lifetime } from '../../../test/parley.ts'
import { type Place, START_MS } from '../../../test/store-contract/fixtures.ts'
import { storeContract } from '../../../test/store-contract/store-contract.ts'
import { makeEmptyFile } from '../../../test/support/empty-file.ts'
import { openSqliteStore } from './sqlite-store.ts'

async function onDisk(t: Lifetime): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-store-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'parley.db')
  makeEmptyFile(path)
  const onFatal = (error: Error) => {
    throw error
  }
  return { open: () => openSqliteStore({ path, maxQueued: 1000, nowMs: () => START_MS, onFatal }) }
}

storeContract('SQLite', onDisk)
