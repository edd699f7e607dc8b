/** Tests that the reference store passes the suites of what nodes use, in both of its forms (shared, and for one node). */
import { nodeContract, sharedStoreContract } from '../../store-contract/store-contract.ts'
import { MemoryDatabase } from './database.ts'
import { openMemoryStore } from './memory-store.ts'

const placeOf = (shared: boolean) => async () => {
  const db = new MemoryDatabase({ shared, clockMs: Date.now })
  const open = async () => {
    db.forgetPlaces()
    return openMemoryStore(db)
  }
  return { open }
}

nodeContract('memory, for one node', placeOf(false))
nodeContract('memory, shared', placeOf(true))
sharedStoreContract('memory, shared', placeOf(true))
