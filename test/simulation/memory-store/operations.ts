/** The types of the reference store's operations: those of the contract, which return results here instead of promises. */
import type { Store } from '../../../src/store/store.ts'

/** What a store knows of its node, rather than of the database. */
export type OfNode = Pick<Store, 'shared' | 'isKnownToAll' | 'subscribe' | 'announceWaits' | 'close'>
type Methods = Omit<Store, keyof OfNode>

export type Operations = {
  readonly [Name in keyof Methods]: (...args: Parameters<Methods[Name]>) => Awaited<ReturnType<Methods[Name]>>
}

/** Defines some of the operations; their parameters and results have the types of the contract. */
export function define<Name extends keyof Operations>(some: Pick<Operations, Name>): Pick<Operations, Name> {
  return some
}
