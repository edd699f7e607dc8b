/**
 * Declares the types of the reference store's operations: those of the contract, which return results here instead of promises.
 */
import type { Store } from '../../../src/store/store.ts'

/** A store knows these of its node, not of the database. */
export type OfNode = Pick<Store, 'shared' | 'isKnownToAll' | 'subscribe' | 'announceWaits' | 'close'>
type Methods = Omit<Store, keyof OfNode>

export type Operations = {
  readonly [Name in keyof Methods]: (...args: Parameters<Methods[Name]>) => Awaited<ReturnType<Methods[Name]>>
}

/** The contract gives the operations' parameters and results their types. */
export function define<Name extends keyof Operations>(some: Pick<Operations, Name>): Pick<Operations, Name> {
  return some
}
