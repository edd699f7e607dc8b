/**
 * The reference store: the storage contract in memory, short enough to be verified by reading. It passes the suite that SQLite
 * and Postgres pass (`memory-store.test.ts`). Each operation is one function without interruption, and is therefore atomic; an
 * operation that throws has changed nothing.
 */
import type { NodeEvents } from '../../../src/store/node-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { accountOperations } from './accounts.ts'
import { batchOperations } from './batches.ts'
import { callbackOperations } from './callbacks.ts'
import { claimOperations } from './claims.ts'
import { costCapOperations } from './cost-caps.ts'
import type { MemoryDatabase } from './database.ts'
import { fileOperations } from './files.ts'
import { jobOperations } from './jobs.ts'
import { rerunOperations } from './reruns.ts'
import { searchOperations } from './searches.ts'

/** The methods by which a node uses the database; the other methods of a store concern the node itself. */
export type Methods = Omit<Store, 'shared' | 'isKnownToAll' | 'subscribe' | 'announceWaits' | 'close'>
export type MethodName = keyof Methods

/** The methods of the contract, which return their results here instead of promises. */
type Operations = {
  readonly [Name in MethodName]: (...args: Parameters<Methods[Name]>) => Awaited<ReturnType<Methods[Name]>>
}

export function memoryOperations(db: MemoryDatabase): Operations {
  return {
    ...jobOperations(db),
    ...claimOperations(db),
    ...callbackOperations(db),
    ...accountOperations(db),
    ...batchOperations(db),
    ...costCapOperations(db),
    ...fileOperations(db),
    ...rerunOperations(db),
    ...searchOperations(db),
    readRate: (name) => db.rates.get(name) ?? null,
    writeRate: (name, { stateJson, version }) => {
      if ((db.rates.get(name)?.version ?? 0) !== version) return false
      db.rates.set(name, { stateJson, version: version + 1 })
      return true
    },
    scrub: () => {},
    ping: () => {},
  }
}

/** A node's call: the method, its arguments, and the function that the database runs for the call. */
export interface StoreCall {
  readonly name: MethodName
  readonly args: readonly unknown[]
  readonly run: () => unknown
}

/** Makes the methods of the contract, each of whose calls goes through `send`. */
export function methodsOf(operations: Operations, send: (call: StoreCall) => Promise<unknown>): Methods {
  const methods = Object.entries(operations).map(([name, operation]) => {
    const run = operation as (...args: unknown[]) => unknown
    const method = (...args: unknown[]) => send({ name: name as MethodName, args, run: () => run(...args) })
    return [name, method] as const
  })
  return Object.fromEntries(methods) as Methods
}

/** Opens the database for one node, without any delays. */
export function openMemoryStore(
  db: MemoryDatabase,
  subscribe: (events: NodeEvents) => void = () => {},
): Store {
  return {
    ...methodsOf(memoryOperations(db), async ({ run }) => run()),
    shared: db.shared,
    isKnownToAll: () => true,
    subscribe,
    announceWaits: async () => {},
    close: async () => {},
  }
}
