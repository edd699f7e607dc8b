/** Messages between the storage thread and its client. */
import type { Call } from './operations.ts'

/** A group of operations. Writes run in one transaction; reads run outside of any. */
export interface Request {
  readonly id: number
  readonly kind: 'read' | 'write'
  readonly calls: readonly Call[]
}

/** Answers a request: the result of each operation, in order, and which of them failed. */
export interface Reply {
  readonly id: number
  readonly values: readonly unknown[]
  readonly failures: readonly Failure[]
}

export type Failure = readonly [index: number, message: string, kind: FailureKind]

/** `unavailable` may succeed later, `rejected` and `unknown account` never will, and `error` is unexpected. */
export type FailureKind = 'unavailable' | 'rejected' | 'unknown account' | 'error'

/** The first message of the thread. `operator` is whether the operator must fix why it could not start. */
export type StartReport = 'ready' | { readonly notReady: string; readonly operator: boolean }
