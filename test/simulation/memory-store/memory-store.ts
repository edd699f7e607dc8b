/**
 * The reference store: what simulated nodes use of the storage contract, in memory, short enough to be verified by reading. It
 * passes the tests of those methods that SQLite and Postgres pass (`memory-store.test.ts`). Each operation is one function without interruption, and is therefore atomic; an
 * operation that throws has changed nothing.
 */
import type { StoredRate } from '../../../src/store/node-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { accountOperations } from './accounts.ts'
import { batchOperations } from './batches.ts'
import { callbackOperations } from './callbacks.ts'
import { claimOperations } from './claims.ts'
import type { MemoryDatabase } from './database.ts'
import { fileOperations } from './files.ts'
import { jobOperations } from './jobs.ts'
import { searchOperations } from './searches.ts'

export function memoryOperations(db: MemoryDatabase) {
  return {
    ...jobOperations(db),
    ...claimOperations(db),
    ...callbackOperations(db),
    ...accountOperations(db),
    ...batchOperations(db),
    ...fileOperations(db),
    ...searchOperations(db),
    readRate: (name: string): StoredRate | null => db.rates.get(name) ?? null,
    writeRate: (name: string, { stateJson, version }: StoredRate): boolean => {
      if ((db.rates.get(name)?.version ?? 0) !== version) return false
      db.rates.set(name, { stateJson, version: version + 1 })
      return true
    },
    scrub: () => {},
  } satisfies Partial<Operations>
}

/** What a store knows of its node, rather than of the database. */
type OfNode = Pick<Store, 'shared' | 'isKnownToAll' | 'subscribe' | 'announceWaits' | 'close'>
type Methods = Omit<Store, keyof OfNode>

/** The methods of the contract, which return their results here instead of promises. */
type Operations = {
  readonly [Name in keyof Methods]: (...args: Parameters<Methods[Name]>) => Awaited<ReturnType<Methods[Name]>>
}
type OwnOperations = ReturnType<typeof memoryOperations>
export type MethodName = keyof OwnOperations

/** A node's call: the method, its arguments, and the function that the database runs for the call. */
export interface StoreCall {
  readonly name: MethodName
  readonly args: readonly unknown[]
  readonly run: () => unknown
}

/** Makes the store of a node, each of whose calls goes through `send`. */
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

/** Opens the database for one node, without any delays. */
export function openMemoryStore(db: MemoryDatabase): Store {
  return storeOf(memoryOperations(db), async ({ run }) => run(), {
    shared: db.shared,
    isKnownToAll: () => true,
    subscribe: () => {},
    announceWaits: async () => {},
    close: async () => {},
  })
}
