/**
 * Runs the storage thread, which uses the database file for the event loop, so that a slow disk never delays the event loop.
 * Writes that have arrived together are committed in one transaction.
 */
import type { DatabaseSync } from 'node:sqlite'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { DatabaseProblem } from '../database-problem.ts'
import { UnknownAccount } from '../store.ts'
import { ServedFile } from './open-file.ts'
import { lockForServing, openFile } from './opening.ts'
import { type Args, type Call, type Name, operations, type Result } from './operations.ts'
import { dropUnusedIndexes, migrate } from './schema.ts'
import { correctReserved, countOnce } from './sums.ts'

/** Writes of a request run in one transaction, reads outside of transactions. */
export interface Request {
  readonly id: number
  readonly kind: 'read' | 'write'
  readonly calls: readonly Call[]
}

/** `values` has the result of each operation, in order. `failures` names the operations that failed. */
export interface Reply {
  readonly id: number
  readonly values: readonly unknown[]
  readonly failures: readonly Failure[]
}

export type Failure = readonly [index: number, message: string, kind: FailureKind]

/**
 * `unavailable`: a retry may succeed. `rejected` and `unknown account`: no retry will succeed. `error`: the cause is
 * unexpected.
 */
export type FailureKind = 'unavailable' | 'rejected' | 'unknown account' | 'error'

/** The thread sends this first. `operator` means that the operator must fix the cause. */
export type StartReport = 'ready' | { readonly notReady: string; readonly operator: boolean }

/** SQLite's primary result code for a write lock that another connection held for longer than the busy timeout. */
const BUSY = 5
/** SQLite's primary result codes for temporary errors: busy, locked, no memory, read-only, I/O, full, cannot open. */
const PASSING_CODES: readonly number[] = [BUSY, 6, 7, 8, 10, 13, 14]
/** SQLite's primary result codes for errors in the row itself: too big, constraint, mismatch. */
const REJECTING_CODES: readonly number[] = [18, 19, 20]

const REMEDY = 'Check free disk space and the permissions of the file, and start again.'

/** The thread handles at most this many messages together, so that the transaction of their writes stays short. */
const MAX_MESSAGES = 16

interface Results {
  readonly values: unknown[]
  readonly failures: Failure[]
}

class StorageThread {
  readonly #file: ServedFile
  /** This reference prevents the garbage collection of the handle, which would release the lock. */
  readonly lock: DatabaseSync

  constructor(path: string) {
    // The lock comes first, because the file cannot be opened while a transfer fills it.
    this.lock = lockForServing(path)
    const db = openFile(path)
    migrate(db)
    dropUnusedIndexes(db)
    countOnce(db)
    correctReserved(db)
    this.#file = new ServedFile(db)
  }

  /** Answers requests in their order. The writes of all of them share a transaction. */
  answer(requests: readonly Request[]): Reply[] {
    const { values, failures } = this.#commit(
      requests.filter(({ kind }) => kind === 'write').flatMap(({ calls }) => calls),
    )
    let from = 0
    return requests.map(({ id, kind, calls }) => {
      if (kind === 'read') return { id, ...eachAlone(calls, ([name, args]) => this.#run(name, args)) }
      const start = from
      from += calls.length
      const own = failures.filter(([index]) => index >= start && index < from)
      return {
        id,
        values: values.slice(start, from),
        failures: own.map(([index, ...failure]) => [index - start, ...failure]),
      }
    })
  }

  close(): void {
    this.#file.db.close()
    this.lock.close()
  }

  #commit(calls: readonly Call[]): Results {
    if (calls.length === 0) return { values: [], failures: [] }
    const commit = (some: readonly Call[]) =>
      this.#file.transaction(() => some.map(([name, args]) => this.#run(name, args)))
    try {
      return { values: commit(calls), failures: [] }
    } catch (error) {
      // Another connection, such as that of a scrub, holds the write lock. Retrying each operation alone would only wait for
      // the same lock again.
      if (calls.length === 1 || codeOf(error) === BUSY) {
        return {
          values: calls.map(() => undefined),
          failures: calls.map((_, index) => failureOf(error, index)),
        }
      }
      // One operation may be at fault, or the group may be too large for the free disk space. So each operation runs on its
      // own.
      return eachAlone(calls, (call) => commit([call])[0])
    }
  }

  #run<N extends Name>(name: N, args: Args<N>): Result<N> {
    return operations[name].run(this.#file, ...args)
  }
}

function eachAlone(calls: readonly Call[], run: (call: Call) => unknown): Results {
  const values: unknown[] = []
  const failures: Failure[] = []
  for (const call of calls) {
    try {
      values.push(run(call))
    } catch (error) {
      failures.push(failureOf(error, values.length))
      values.push(undefined)
    }
  }
  return { values, failures }
}

function failureOf(error: unknown, index: number): Failure {
  return [index, messageOf(error), kindOf(error)]
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function kindOf(error: unknown): FailureKind {
  if (error instanceof UnknownAccount) return 'unknown account'
  const code = codeOf(error)
  if (PASSING_CODES.includes(code)) return 'unavailable'
  return REJECTING_CODES.includes(code) ? 'rejected' : 'error'
}

function codeOf(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0
}

type Message = Request | 'close'

function* waitingMessages(port: MessagePort): Generator<Message> {
  for (let count = 1; count < MAX_MESSAGES; count++) {
    const next = receiveMessageOnPort(port)
    if (!next) return
    yield next.message
  }
}

function serve(port: MessagePort): void {
  let thread: StorageThread
  try {
    thread = new StorageThread(String(workerData.path))
  } catch (error) {
    port.postMessage(whyNotReady(error))
    return
  }
  port.on('message', (first: Message) => {
    const messages = [first, ...waitingMessages(port)]
    const requests = messages.filter((message) => message !== 'close')
    if (requests.length > 0) port.postMessage(thread.answer(requests))
    if (messages.includes('close')) {
      thread.close()
      port.close()
    }
  })
  port.postMessage('ready' satisfies StartReport)
}

function whyNotReady(error: unknown): StartReport {
  const why = messageOf(error)
  if (kindOf(error) !== 'unavailable') return { notReady: why, operator: error instanceof DatabaseProblem }
  return { notReady: `The database ${workerData.path} cannot be used: ${why}. ${REMEDY}`, operator: true }
}

if (parentPort) serve(parentPort)
