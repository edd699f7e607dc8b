/** Implements the store of a server on SQLite: gathers operations in groups, and sends each group to the storage thread. */
import { Worker } from 'node:worker_threads'
import { errorJson } from '../../job/job.ts'
import { moduleURL } from '../../module-url.ts'
import { TransientMap } from '../../transient-map.ts'
import { attemptLine, recordCells } from '../callback-records.ts'
import { BODY_READ_BYTES, type CallbackToLoad } from '../callback-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { Failed, GroupCommit } from '../group-commit.ts'
import { ANY_SIZE } from '../job-rows.ts'
import { withSearches } from '../shared-operations.ts'
import {
  type NewJob,
  type Settlement,
  type Store,
  StoreUnavailable,
  UnknownAccount,
  WriteRejected,
} from '../store.ts'
import type { CachedAt, NewJobCells } from './accept.ts'
import { readBody, readDue } from './callbacks.ts'
import { readClaimedJob } from './claim.ts'
import { SQLITE } from './dialect.ts'
import { type Args, type Call, methodsOf, type Name, operations, type Result } from './operations.ts'
import { readJob } from './read.ts'
import { ResponseIndex } from './response-cache.ts'
import type { OutcomeCells } from './settle.ts'
import type { Reply, Request, StartReport } from './thread.ts'
import type { VacuumTask } from './vacuum-thread.ts'

const MAX_GROUP = 1024
/** How many groups may be in progress while the next one gathers. */
const IN_FLIGHT = 8
/** How long the deletion of answered requests may wait to share the transaction of another write. */
const FORGET_WAIT_MS = 250
/** The index of cached responses is built in steps of this many rows. */
const INDEX_STEP = 5000

export interface SqliteStoreOptions {
  readonly path: string
  /** How many writes may be queued before new jobs are rejected. */
  readonly maxQueued: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  /** The store calls this if the storage thread exits unexpectedly. Nothing can be stored then, so the process should exit. */
  readonly onFatal: (error: Error) => void
}

/** Rejects with a `DatabaseProblem` if the operator must fix something. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const worker = new Worker(moduleURL('./thread.ts', import.meta.url), { workerData: { path: options.path } })
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject)
    worker.once('message', (report: StartReport) => {
      worker.off('error', reject)
      if (report === 'ready') resolve()
      else reject(report.operator ? new DatabaseProblem(report.notReady) : new Error(report.notReady))
    })
  })
  return storeOn(new ThreadClient(worker, options), options)
}

class ThreadClient {
  readonly #worker: Worker
  readonly #onFatal: (error: Error) => void
  readonly #groups: Readonly<Record<Request['kind'], GroupCommit<Call, unknown>>>
  readonly #bodies: GroupCommit<CallbackToLoad, unknown>
  readonly #replies = new TransientMap<number, PromiseWithResolvers<readonly unknown[]>>()
  #nextRequest = 1
  #closed: Promise<void> | null = null

  constructor(worker: Worker, { maxQueued, onCommit, onFatal }: SqliteStoreOptions) {
    this.#worker = worker
    this.#onFatal = onFatal
    const group = (kind: Request['kind']) =>
      new GroupCommit<Call, unknown>({
        commit: (calls) => this.#send(kind, calls),
        inFlight: IN_FLIGHT,
        maxGroup: MAX_GROUP,
        maxQueued,
        ...(kind === 'write' && onCommit && { onCommit }),
      })
    this.#groups = { read: group('read'), write: group('write') }
    this.#bodies = new GroupCommit<CallbackToLoad, unknown>({
      commit: (group) => {
        const calls = group.map(({ jobId, attempt }): Call => ['loadCallback', [jobId, attempt]])
        return this.#send('read', calls)
      },
      // With one read at a time, the thread never holds more than the bodies of one read.
      inFlight: 1,
      maxGroup: MAX_GROUP,
      weight: { of: ({ bodyBytes }) => bodyBytes, max: BODY_READ_BYTES },
      maxQueued: Number.POSITIVE_INFINITY,
    })
    worker.on('message', this.#receive)
    worker.on('error', (error: Error) => this.#end(error))
    worker.on('exit', () => this.#end(new Error('the storage thread exited')))
  }

  get isClosed(): boolean {
    return this.#closed !== null
  }

  /** @param mayWaitMs how long a write may wait for others to share a transaction, in milliseconds */
  call<N extends Name>(name: N, args: Args<N>, mayWaitMs?: number): Promise<Result<N>> {
    const { kind, sheddable } = operations[name]
    // The thread runs the operation of this name, so the result has the type of that operation.
    return this.#groups[kind].submit([name, args], { sheddable, mayWaitMs }) as Promise<Result<N>>
  }

  /** Bodies can be large, so a group of them is limited by bytes instead of by the number of operations. */
  loadBody(callback: CallbackToLoad): Promise<Result<'loadCallback'>> {
    return this.#bodies.submit(callback) as Promise<Result<'loadCallback'>>
  }

  /** Finishes pending calls and ends the thread. A second call returns the same promise. */
  close(): Promise<void> {
    this.#closed ??= this.#finish()
    return this.#closed
  }

  async #finish(): Promise<void> {
    const { read, write } = this.#groups
    await Promise.all([read.drained(), write.drained(), this.#bodies.drained()])
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve))
    this.#worker.postMessage('close')
    await exited
  }

  #send(kind: Request['kind'], calls: readonly Call[]): Promise<readonly unknown[]> {
    const id = this.#nextRequest++
    const reply = Promise.withResolvers<readonly unknown[]>()
    this.#replies.set(id, reply)
    this.#worker.postMessage({ id, kind, calls } satisfies Request)
    return reply.promise
  }

  #receive = (replies: readonly Reply[]): void => {
    for (const { id, values, failures } of replies) {
      const results = failures.length === 0 ? values : withFailures(values, failures)
      this.#replies.get(id)?.resolve(results)
      this.#replies.delete(id)
    }
  }

  #end(error: Error): void {
    for (const { reject } of this.#replies.values()) reject(error)
    for (const id of this.#replies.keys()) this.#replies.delete(id)
    if (this.#closed === null) this.#onFatal(error)
  }
}

const ERRORS = {
  unavailable: StoreUnavailable,
  rejected: WriteRejected,
  'unknown account': UnknownAccount,
  error: Error,
}

function withFailures(values: readonly unknown[], failures: Reply['failures']): unknown[] {
  const results = [...values]
  for (const [index, message, kind] of failures) results[index] = new Failed(new ERRORS[kind](message))
  return results
}

function storeOn(thread: ThreadClient, { path, nowMs, onFatal }: SqliteStoreOptions): Store {
  const index = new ResponseIndex()
  let isFilled = false
  const filled = fillIndex(index, thread, nowMs).then(() => {
    isFilled = true
  })
  filled.catch(onFatal)
  const findResponse = (fingerprint: string, atMs: number): Promise<string | null> | null => {
    if (!isFilled) return filled.then(() => findResponse(fingerprint, atMs))
    const seq = index.find(fingerprint, atMs)
    return seq === null ? null : thread.call('findResponse', [fingerprint, seq, atMs])
  }
  const cachedAt = (fingerprint: string | null | undefined, atMs: number): CachedAt | null => {
    const seq = fingerprint == null ? null : index.find(fingerprint, atMs)
    return seq === null || fingerprint == null ? null : [fingerprint, seq]
  }
  const accept: Store['accept'] = (acceptance) => {
    const { node, jobs, idempotency, nowMs: atMs, mayWaitMs, costCap = null } = acceptance
    const cells: NewJobCells[] = []
    for (const job of jobs) {
      if (!isFilled && job.fingerprint != null) return filled.then(() => accept(acceptance))
      cells.push(newJobCells(job, cachedAt(job.fingerprint, atMs)))
    }
    return thread.call('accept', [node, atMs, idempotency, cells, costCap], mayWaitMs)
  }
  /** A scrub waits for the previous one, because each holds the write lock for a long time. */
  let lastScrub: Promise<void> = Promise.resolve()
  return {
    ...withSearches(
      SQLITE,
      methodsOf(operations, (name, args) => thread.call(name, args)),
    ),
    shared: false,
    isKnownToAll: () => true,
    /** No other node uses the file, so there are no events of other nodes. */
    subscribe: () => {},
    announceWaits: async () => {},
    // Rates are stored only for nodes that share a database.
    readRate: async () => null,
    writeRate: async () => false,

    accept,

    claim: async (node, limit, atMs, from) => {
      const { rows, mayHaveMore } = await thread.call('claim', [node, limit, atMs, from])
      return { jobs: rows.map(readClaimedJob), mayHaveMore }
    },

    settle: async (settlement) => {
      const { jobId, node, attempt, cache } = settlement
      const args: Args<'settle'> = [jobId, node, attempt, outcomeCells(settlement)]
      const seq = await thread.call('settle', args, settlement.mayWaitMs)
      if (typeof seq === 'string') return seq
      if (cache) index.set(cache.fingerprint, seq, cache.untilMs, settlement.nowMs)
      return 'settled'
    },

    read: async (account, jobId, { nowMs: atMs, retentionMs }, maxBytes = ANY_SIZE) => {
      const cells = await thread.call('read', [account, jobId, atMs, retentionMs, maxBytes])
      return cells && readJob(jobId, cells)
    },

    findResponse,

    forgetHeldRequests: (accounts, keys) =>
      thread.call('forgetHeldRequests', [accounts, keys], FORGET_WAIT_MS),

    takeCallbacks: async (take) => (await thread.call('takeCallbacks', [take])).map(readDue),

    takeDeferred: async (take) => (await thread.call('takeDeferred', [take])).map(readDue),

    loadCallback: async (callback) => {
      const cells = await thread.loadBody(callback)
      return cells && readBody(cells)
    },

    recordCallback: (record) => {
      const { jobId, attempt } = record
      const { dueAtMs, deliveredAtMs, failedAtMs, uncounted } = recordCells(record)
      const line = attemptLine(attempt)
      const cells = [dueAtMs, deliveredAtMs, failedAtMs, uncounted] as const
      return thread.call('recordCallback', [jobId, attempt.attempt, line, ...cells])
    },

    scrub: () => {
      lastScrub = lastScrub.catch(() => {}).then(() => scrub(path))
      return lastScrub
    },

    ping: () => thread.call('ping', [nowMs()]),

    close: () => thread.close(),
  }
}

function scrub(path: string): Promise<void> {
  const workerData: VacuumTask = { path }
  const thread = new Worker(moduleURL('./vacuum-thread.ts', import.meta.url), { workerData })
  return new Promise((resolve, reject) => {
    thread.once('error', reject)
    thread.once('exit', () => resolve())
  })
}

async function fillIndex(index: ResponseIndex, thread: ThreadClient, nowMs: () => number): Promise<void> {
  let afterSeq = 0
  while (!thread.isClosed) {
    const entries = await thread.call('listResponses', [afterSeq, INDEX_STEP])
    const atMs = nowMs()
    for (const [seq, fingerprint, untilMs] of entries) {
      afterSeq = Number(seq)
      if (Number(untilMs) > atMs) index.set(String(fingerprint), afterSeq, Number(untilMs), atMs)
    }
    if (entries.length < INDEX_STEP) break
  }
}

function newJobCells({ job, handedOff, step, route, awaited }: NewJob, cached: CachedAt | null): NewJobCells {
  return [
    job.id,
    job.account,
    job.tier,
    job.model,
    handedOff ? 1 : 0,
    step,
    job.cacheTtlMs / 1000,
    job.inputTokens,
    job.createdAtMs,
    job.messagesJson,
    job.responseFormatJson,
    job.callbackJson,
    route,
    awaited ? 1 : 0,
    cached,
    job.priority ?? null,
    job.deadlineMs ?? null,
    job.reserved ?? null,
  ]
}

function outcomeCells({ outcome, usage, receiptJson, cache, nowMs }: Settlement): OutcomeCells {
  return [
    outcome.status,
    outcome.status === 'completed' ? outcome.contentJson : null,
    outcome.status === 'failed' ? errorJson(outcome.error) : null,
    JSON.stringify(usage),
    receiptJson,
    cache?.fingerprint ?? null,
    cache?.untilMs ?? 0,
    nowMs,
  ]
}
