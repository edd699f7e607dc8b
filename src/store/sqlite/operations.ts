/**
 * Every operation of the SQLite store, by name. The storage thread finds operations here. The typed methods of its client and
 * of commands are derived from this table.
 */
import { sharedOperatorOperations, sharedServerOperations } from '../shared-operations.ts'
import { acceptOperations } from './accept.ts'
import { batchStepOperations, callbackOperations } from './callbacks.ts'
import { cancelledOperations } from './cancel.ts'
import { claimOperations } from './claim.ts'
import { costCapOperations } from './cost-caps.ts'
import { deletionOperations } from './delete.ts'
import { SQLITE } from './dialect.ts'
import { expireOperations, overdueOperations } from './expire.ts'
import { nodeOperations, releaseOperations, rescueOperations } from './nodes.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { type Operation, onFile } from './operation.ts'
import { healthOperations, readOperations } from './read.ts'
import { responseCacheOperations } from './response-cache.ts'
import { scrubOperations } from './scrub.ts'
import { settleOperations } from './settle.ts'

/** Operations that commands use, too, even while a server is running. */
const OPERATOR_OPERATIONS = {
  ...onFile(sharedOperatorOperations(SQLITE)),
  ...deletionOperations,
  ...scrubOperations,
}

const OPERATIONS = {
  ...OPERATOR_OPERATIONS,
  ...onFile(sharedServerOperations(SQLITE)),
  ...acceptOperations,
  ...batchStepOperations,
  ...costCapOperations,
  ...callbackOperations,
  ...cancelledOperations,
  ...claimOperations,
  ...expireOperations,
  ...healthOperations,
  ...nodeOperations,
  ...overdueOperations,
  ...readOperations,
  ...releaseOperations,
  ...rescueOperations,
  ...responseCacheOperations,
  ...settleOperations,
}

type ArgsOf<One> = One extends { run: (file: never, ...args: infer Args) => unknown } ? Args : never
type ResultOf<One> = One extends { run: (...args: never) => infer Result } ? Result : never

export type Name = keyof typeof OPERATIONS
export type OperatorName = keyof typeof OPERATOR_OPERATIONS
export type Args<N extends Name> = ArgsOf<(typeof OPERATIONS)[N]>
export type Result<N extends Name> = ResultOf<(typeof OPERATIONS)[N]>

/** A call of an operation in the form that the storage thread gets: an array, because copying arrays is cheap. */
export type Call = readonly [name: Name, args: Args<Name>]

export const operations: { readonly [N in Name]: Operation<ServedFile, Args<N>, Result<N>> } = OPERATIONS
export const operatorOperations: {
  readonly [N in OperatorName]: Operation<OpenFile, Args<N>, Result<N>>
} = OPERATOR_OPERATIONS

/** The operations with these names, as asynchronous methods. */
export type Methods<N extends Name> = { [One in N]: (...args: Args<One>) => Promise<Result<One>> }

export function methodsOf<N extends Name>(
  names: { readonly [One in N]: unknown },
  call: <One extends N>(name: One, args: Args<One>) => Promise<Result<One>>,
): Methods<N> {
  const methods: Partial<Methods<N>> = {}
  for (const name of Object.keys(names) as N[]) methods[name] = (...args) => call(name, args)
  return methods as Methods<N>
}
