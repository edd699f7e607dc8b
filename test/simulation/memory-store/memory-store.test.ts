/** Tests that the reference store passes the suite of all stores, in both of its forms (shared, and for one node). */
import { sharedStoreContract, storeContract } from '../../store-contract/store-contract.ts'
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

storeContract('memory, for one node', placeOf(false))
storeContract('memory, shared', placeOf(true))
sharedStoreContract('memory, shared', placeOf(true))
