/**
 * Implements in memory what simulated nodes use of the storage contract, short enough to be verified by reading. This reference
 * store passes the contract's tests of the operations that nodes use (`memory-store.test.ts`). Each operation is one synchronous
 * function, and therefore atomic. An operation that throws has changed nothing.
 */
import type { Store } from '../../../src/store/store.ts'
import { accountOperations, usageOperations } from './accounts.ts'
import { batchOperations } from './batches.ts'
import { callbackOperations } from './callbacks.ts'
import { claimOperations } from './claims.ts'
import type { MemoryDatabase } from './database.ts'
import { fileOperations } from './files.ts'
import { jobOperations } from './jobs.ts'
import { define, type OfNode } from './operations.ts'
import { searchOperations } from './searches.ts'

export function memoryOperations(db: MemoryDatabase) {
  return {
    ...jobOperations(db),
    ...claimOperations(db),
    ...callbackOperations(db),
    ...accountOperations(db),
    ...usageOperations(db),
    ...batchOperations(db),
    ...fileOperations(db),
    ...searchOperations(db),
    ...define({
      readRate: (name) => db.rates.get(name) ?? null,
      writeRate: (name, { stateJson, version }) => {
        if ((db.rates.get(name)?.version ?? 0) !== version) return false
        db.rates.set(name, { stateJson, version: version + 1 })
        return true
      },
      scrub: () => {},
    }),
  }
}

type OwnOperations = ReturnType<typeof memoryOperations>
export type MethodName = keyof OwnOperations

export interface StoreCall {
  readonly name: MethodName
  readonly args: readonly unknown[]
  readonly run: () => unknown
}

export function storeOf(
  operations: OwnOperations,
  send: (call: StoreCall) => Promise<unknown>,
  ofNode: OfNode,
): Store {
  const methods = Object.entries(operations).map(([name, operation]) => {
    const run = operation as (...args: unknown[]) => unknown
    const method = (...args: unknown[]) => send({ name: name as MethodName, args, run: () => run(...args) })
    return [name, method] as const
  })
  return { ...(Object.fromEntries(methods) as Pick<Store, MethodName>), ...ofNode } as Store
}

export function openMemoryStore(db: MemoryDatabase): Store {
  return storeOf(memoryOperations(db), async ({ run }) => run(), {
    shared: db.shared,
    isKnownToAll: () => true,
    subscribe: () => {},
    announceWaits: async () => {},
    close: async () => {},
  })
}
