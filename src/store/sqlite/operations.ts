/**
 * Lists every operation of the SQLite store by name. The storage thread finds operations in this table, and the typed methods
 * of its callers are derived from it.
 */
import { sharedOperatorOperations, sharedServerOperations } from '../shared-operations.ts'
import { acceptOperations } from './accept.ts'
import { callbackOperations } from './callbacks.ts'
import { cancelledOperations } from './cancel.ts'
import { claimOperations } from './claim.ts'
import { costCapOperations } from './cost-caps.ts'
import { deletionOperations } from './delete.ts'
import { SQLITE } from './dialect.ts'
import { expireOperations } from './expire.ts'
import { nodeOperations } from './nodes.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { type Operation, onFile } from './operation.ts'
import { overdueOperations } from './overdue.ts'
import { readOperations } from './read.ts'
import { responseCacheOperations } from './response-cache.ts'
import { settleOperations } from './settle.ts'

/** Commands run these operations, too, even while a server is running. */
const OPERATOR_OPERATIONS = {
  ...onFile(sharedOperatorOperations(SQLITE)),
  ...deletionOperations,
}

const OPERATIONS = {
  ...OPERATOR_OPERATIONS,
  ...onFile(sharedServerOperations(SQLITE)),
  ...acceptOperations,
  ...costCapOperations,
  ...callbackOperations,
  ...cancelledOperations,
  ...claimOperations,
  ...expireOperations,
  ...nodeOperations,
  ...overdueOperations,
  ...readOperations,
  ...responseCacheOperations,
  ...settleOperations,
}

type ArgsOf<One> = One extends { run: (file: never, ...args: infer Args) => unknown } ? Args : never
type ResultOf<One> = One extends { run: (...args: never) => infer Result } ? Result : never

export type Name = keyof typeof OPERATIONS
export type OperatorName = keyof typeof OPERATOR_OPERATIONS
export type Args<N extends Name> = ArgsOf<(typeof OPERATIONS)[N]>
export type Result<N extends Name> = ResultOf<(typeof OPERATIONS)[N]>

/** The storage thread gets a call as an array, because copying arrays between threads is cheap. */
export type Call = readonly [name: Name, args: Args<Name>]

export const operations: { readonly [N in Name]: Operation<ServedFile, Args<N>, Result<N>> } = OPERATIONS
export const operatorOperations: {
  readonly [N in OperatorName]: Operation<OpenFile, Args<N>, Result<N>>
} = OPERATOR_OPERATIONS

export type Methods<N extends Name> = { [One in N]: (...args: Args<One>) => Promise<Result<One>> }

export function methodsOf<N extends Name>(
  names: { readonly [One in N]: unknown },
  call: <One extends N>(name: One, args: Args<One>) => Promise<Result<One>>,
): Methods<N> {
  const methods: Partial<Methods<N>> = {}
  for (const name of Object.keys(names) as N[]) methods[name] = (...args) => call(name, args)
  return methods as Methods<N>
}
