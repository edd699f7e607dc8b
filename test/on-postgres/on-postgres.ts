/**
 * Runs a test file a second time, on Postgres, in a process of its own. Each file here is the twin of one beside this folder.
 *
 *     onPostgres(() => import('../../http/reads.test.ts'))
 */
import { describe } from 'node:test'
import { storeIn } from '../place.ts'
import { freshDatabase } from '../postgres/database.ts'

/** A Parley that is started again on the same folder finds the same schema again. */
const schemas = new Map<string, Promise<string>>()

export function onPostgres(load: () => Promise<unknown>): void {
  storeIn((t, folder) => {
    const schema = schemas.get(folder) ?? freshDatabase(t)
    schemas.set(folder, schema)
    return schema
  })
  // So that the name of a test that fails says where it failed.
  describe('on Postgres', async () => {
    await load()
  })
}
