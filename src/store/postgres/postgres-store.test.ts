import { randomBytes } from 'node:crypto'
import type { Lifetime } from '../../../test/parley.ts'
import { emptyTables } from '../../../test/postgres/emptied-schemas.ts'
import type { Place } from '../../../test/store-contract/fixtures.ts'
import { sharedStoreContract, storeContract } from '../../../test/store-contract/store-contract.ts'
import { openPostgresStore } from './postgres-store.ts'

async function inSchema(t: Lifetime): Promise<Place> {
  const url = await emptyTables(t)
  return {
    open: () =>
      openPostgresStore({
        url,
        node: randomBytes(8).toString('hex'),
        connections: 10,
        prepare: true,
        statementMs: 15_000,
        maxQueued: 1000,
        retentionMs: 604_800_000,
        nowMs: () => Date.now(),
        onNote: () => {},
      }),
  }
}

storeContract('Postgres', inSchema)
sharedStoreContract('Postgres', inSchema)
