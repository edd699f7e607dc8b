/**
 * The operations that cross to the storage thread, by name, as tuples: the one place that both sides are typed from.
 */
import type { CallbackScan, DeferredCallback, TakeCallbacks, TakeDeferred } from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import type { JobScan } from '../job-search.ts'
import type { PoisonCandidates } from '../store.ts'
import type { DirectOperation } from './direct.ts'
import type { Cell } from './wire.ts'

export type Operation =
  | readonly ['accept', node: string, nowMs: number, idempotency: IdempotencyCells | null, rows: Cell[]]
  | readonly ['acceptEnded', row: Cell[], ...ended: EndedCells, ...keep: KeepCells, number]
  | readonly ['claim', node: string, limit: number, nowMs: number, PoisonCandidates | null]
  | readonly ['settle', ...claim: [string, string, number], ...ended: EndedCells, ...keep: KeepCells, number]
  | readonly ['giveBack', node: string, claims: Cell[]]
  | readonly ['reclaim', node: string, nowMs: number]
  | readonly ['expire', Expiry]
  | readonly ['takeCallbacks', TakeCallbacks]
  | readonly ['takePostponed', TakeDeferred]
  | readonly ['loadCallbacks', wanted: Cell[]]
  | readonly ['recordCallback', jobId: string, attempt: number, line: string, ...RecordCells]
  | readonly ['postponeCallbacks', node: string, readonly DeferredCallback[]]
  | readonly ['callbackDepth']
  | readonly ['lookAtCallbacks', CallbackScan]
  | readonly ['lookAtJobs', JobScan]
  | readonly ['probe', nowMs: number]
  | readonly ['takeCancelled']
  | readonly ['scrub']
  | readonly ['findResponse', seq: number, fingerprint: string, nowMs: number]
  | readonly ['read', account: string, jobId: string, Expiry]
  | readonly ['readEnded', jobIds: readonly string[]]
  | readonly ['held', node: string]
  | readonly ['keptAnswersAfter', seq: number, limit: number]
  | readonly ['depth']
  | DirectOperation

export type IdempotencyCells = { key: string; fingerprint: string; untilMs: number }
export type EndedCells = [
  status: string,
  content: string | null,
  error: string | null,
  usage: string,
  receipt: string,
]
export type RecordCells = [
  dueAtMs: number | null,
  deliveredAtMs: number | null,
  failedAtMs: number | null,
  uncounted: number,
]
export type KeepCells = [fingerprint: string | null, untilMs: number]

/** A group for the thread: answered by a `Reply` with as many results, in order. */
export interface Request {
  readonly id: number
  /** Writes run in one transaction; reads in none. */
  readonly kind: 'write' | 'read'
  readonly ops: readonly Operation[]
}

export type Result = { readonly value: unknown } | { readonly failed: string; readonly as: Failure }

/** What a failure means: `unavailable` may pass, `rejected` never does, of an `error` nothing is known. */
export type Failure = 'unavailable' | 'rejected' | 'error'

export interface Reply {
  readonly id: number
  readonly results: readonly Result[]
}
