/** The store on SQLite, as the rest of the program holds it: groups operations and sends them to the storage thread. */
import { Worker } from 'node:worker_threads'
import type { ClaimedJob, Job } from '../../job/job.ts'
import type { JobRecord } from '../../job/job-record.ts'
import { moduleURL } from '../../module-url.ts'
import { attemptLine, recordCells, searchCallbacksByChunk } from '../callback-rows.ts'
import {
  type AttemptRecord,
  BODY_READ_BYTES,
  type CallbackBody,
  type CallbackDepth,
  type CallbackFilter,
  type CallbackSummary,
  type CallbackToLoad,
  type DeferredCallback,
  type DueCallback,
  type TakeCallbacks,
  type TakeDeferred,
} from '../callback-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import type { Expiry } from '../expiry.ts'
import { GroupCommit, type OpResult } from '../group-commit.ts'
import type { JobPage, JobSearch } from '../job-records.ts'
import { searchJobsByChunk } from '../job-search.ts'
import type { Claim, Renewal } from '../node-store.ts'
import type { Page } from '../pagination.ts'
import {
  type Acceptance,
  type Accepted,
  type Depth,
  type EndedJob,
  type PoisonCandidates,
  type Settled,
  type Settlement,
  type Store,
  StoreUnavailable,
  WriteRejected,
} from '../store.ts'
import { readLoaded, readTaken } from './callbacks.ts'
import { type DirectName, directBy } from './direct.ts'
import { SLICE_ROWS } from './job-records.ts'
import type { EndedCells, KeepCells, Operation, Reply, Request, Result } from './operations.ts'
import { ResponseCacheIndex } from './response-cache.ts'
import { type Cell, GONE, pushNewJob, readClaimedJob, STALE } from './wire.ts'

const MAX_GROUP = 1024
/** Groups on their way: the thread commits together what has come while it was committing. */
const IN_FLIGHT = 8
const FILL_STEP = 5000
const NOTHING_KEPT = Promise.resolve(null)

export interface SqliteStoreOptions {
  readonly path: string
  /** Writes that may wait before acceptances are refused. */
  readonly maxQueued: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  /** The storage thread ended unasked: nothing can be stored any more, and the process had better end. */
  readonly onFatal: (error: Error) => void
}

/** Opens the file and starts its thread. Rejects with a `DatabaseProblem` for what the operator must mend. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const thread = new Worker(moduleURL('./thread.ts', import.meta.url), { workerData: { path: options.path } })
  await new Promise<void>((resolve, reject) => {
    thread.once('error', reject)
    thread.once('message', (message: 'ready' | { notReady: string; mend: boolean }) => {
      thread.off('error', reject)
      if (message === 'ready') return resolve()
      reject(message.mend ? new DatabaseProblem(message.notReady) : new Error(message.notReady))
    })
  })
  const store = new SqliteStore(thread, options)
  return Object.assign(store, store.direct())
}

class SqliteStore implements Omit<Store, DirectName> {
  readonly shared = false
  readonly #thread: Worker
  readonly #writes: GroupCommit<Operation>
  readonly #reads: GroupCommit<Operation>
  readonly #bodies: GroupCommit<CallbackToLoad>
  readonly #kept = new ResponseCacheIndex()
  /** Resolves when the index of kept answers has been read back. */
  readonly #keptRead: Promise<void>
  #keptComplete = false
  readonly #nowMs: () => number
  readonly #replies = new Map<number, { resolve: (r: OpResult[]) => void; reject: (e: Error) => void }>()
  #nextRequest = 1
  #closing = false
  #closed: Promise<void> | null = null

  constructor(thread: Worker, { maxQueued, nowMs, onCommit, onFatal }: SqliteStoreOptions) {
    this.#thread = thread
    this.#nowMs = nowMs
    this.#writes = new GroupCommit({
      commit: (ops) => this.#send('write', ops),
      inFlight: IN_FLIGHT,
      maxGroup: MAX_GROUP,
      maxQueued,
      ...(onCommit && { onCommit }),
    })
    this.#reads = new GroupCommit({
      commit: (ops) => this.#send('read', ops),
      inFlight: IN_FLIGHT,
      maxGroup: MAX_GROUP,
      maxQueued: Number.POSITIVE_INFINITY,
    })
    this.#bodies = new GroupCommit({
      commit: (group) => this.#loadAll(group),
      // One at a time, so that the thread holds one read's bodies at most.
      inFlight: 1,
      maxGroup: MAX_GROUP,
      weight: { of: ({ bodyBytes }) => bodyBytes, max: BODY_READ_BYTES },
      maxQueued: Number.POSITIVE_INFINITY,
    })
    thread.on('message', (replies: readonly Reply[]) => {
      for (const { id, results } of replies) {
        const waiting = this.#replies.get(id)
        this.#replies.delete(id)
        waiting?.resolve(results.map(toOpResult))
      }
    })
    const fatal = (error: Error) => {
      for (const { reject } of this.#replies.values()) reject(error)
      this.#replies.clear()
      if (!this.#closing) onFatal(error)
    }
    thread.on('error', fatal)
    thread.on('exit', () => fatal(new Error('the storage thread has ended')))
    this.#keptRead = this.#readKeptAnswers()
    this.#keptRead.catch(onFatal)
  }

  /** The methods that cross to the thread as they are. */
  direct(): Pick<Store, DirectName> {
    return directBy(
      (operation) => this.#read(operation),
      (operation) => this.#write(operation),
    )
  }

  accept({ node, jobs, idempotency, nowMs }: Acceptance): Promise<Accepted> {
    const rows: Cell[] = []
    for (const job of jobs) pushNewJob(rows, job)
    return this.#write(['accept', node, nowMs, idempotency, rows], true)
  }

  async claim(
    node: string,
    limit: number,
    nowMs: number,
    suspects?: PoisonCandidates,
  ): Promise<ClaimedJob[]> {
    const rows = await this.#write<Cell[][]>(['claim', node, limit, nowMs, suspects ?? null])
    return rows.map(readClaimedJob)
  }

  acceptEnded(job: Job, settlement: Settlement): Promise<void> {
    const row: Cell[] = []
    pushNewJob(row, { job, handedOff: true, step: 0, awaited: false })
    return this.#write<number>(['acceptEnded', row, ...outcomeCells(settlement)], true).then((seq) =>
      this.#noteKept(settlement, seq),
    )
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const { jobId, node, attempt } = settlement
    const seq = await this.#write<number>(['settle', jobId, node, attempt, ...outcomeCells(settlement)])
    if (seq === STALE) return 'stale'
    if (seq === GONE) return 'gone'
    this.#noteKept(settlement, seq)
    return 'settled'
  }

  #noteKept({ cache: keep, nowMs }: Settlement, seq: number): void {
    if (keep) this.#kept.note(keep.fingerprint, seq, keep.untilMs, nowMs)
  }

  release(node: string, claims: readonly Claim[]): Promise<void> {
    return this.#write(['giveBack', node, claims.flatMap(({ jobId, attempt }) => [jobId, attempt])])
  }

  rescue(node: string, nowMs: number): Promise<number> {
    return this.#write(['reclaim', node, nowMs])
  }

  findResponse(fingerprint: string, nowMs: number): Promise<string | null> {
    if (!this.#keptComplete) return this.#keptRead.then(() => this.#recall(fingerprint, nowMs))
    return this.#recall(fingerprint, nowMs)
  }

  #recall(fingerprint: string, nowMs: number): Promise<string | null> {
    const seq = this.#kept.find(fingerprint, nowMs)
    return seq === null ? NOTHING_KEPT : this.#read(['findResponse', seq, fingerprint, nowMs])
  }

  read(account: string, jobId: string, expiry: Expiry): Promise<JobRecord | null> {
    return this.#read(['read', account, jobId, expiry])
  }

  readEnded(jobIds: readonly string[]): Promise<EndedJob[]> {
    return this.#read(['readEnded', jobIds])
  }

  /** No other node uses this file. */
  subscribe(): void {}

  /** The file's lock is the lease: it was kept, or nobody would be here to ask. */
  async renew(node: string): Promise<Renewal> {
    const held = await this.#read<[string, number][]>(['held', node])
    return { kept: true, held: held.map(([jobId, attempt]) => ({ jobId, attempt })) }
  }

  takeCancelled(): Promise<Claim[]> {
    return this.#write(['takeCancelled'])
  }

  /** A read as far as the thread is concerned: it runs outside of any transaction. */
  scrub(): Promise<void> {
    return this.#read(['scrub'])
  }

  /** The lock ends with the process. */
  leave(): Promise<void> {
    return Promise.resolve()
  }

  expire(expiry: Expiry): Promise<boolean> {
    return this.#write(['expire', expiry])
  }

  async takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]> {
    return (await this.#write<Cell[][]>(['takeCallbacks', take])).map(readTaken)
  }

  async takeDeferred(take: TakeDeferred): Promise<DueCallback[]> {
    return (await this.#write<Cell[][]>(['takePostponed', take])).map(readTaken)
  }

  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null> {
    return this.#bodies.submit(callback)
  }

  /** A row that cannot be read holds up no others: each is then read on its own. */
  async #loadAll(group: readonly CallbackToLoad[]): Promise<OpResult[]> {
    const wanted = group.flatMap(({ jobId, attempt }) => [jobId, attempt])
    const [loaded] = await this.#send('read', [['loadCallbacks', wanted]])
    if (loaded && 'value' in loaded) {
      const cells = loaded.value as Cell[]
      return group.map((_, index) => ({ value: readLoaded(cells, index) }))
    }
    if (group.length === 1 || loaded?.error instanceof StoreUnavailable) {
      return group.map(() => ({ error: loaded?.error }))
    }
    const alone = await Promise.all(group.map((one) => this.#loadAll([one])))
    return alone.flat()
  }

  recordCallback(record: AttemptRecord): Promise<boolean> {
    const { jobId, attempt } = record
    const { dueAtMs, deliveredAtMs, failedAtMs, uncounted } = recordCells(record)
    const line = attemptLine(attempt)
    const cells = [dueAtMs, deliveredAtMs, failedAtMs, uncounted] as const
    return this.#write(['recordCallback', jobId, attempt.attempt, line, ...cells])
  }

  deferCallbacks(node: string, postponed: readonly DeferredCallback[]): Promise<void> {
    return this.#write(['postponeCallbacks', node, postponed])
  }

  callbackDepth(): Promise<CallbackDepth> {
    return this.#read(['callbackDepth'])
  }

  searchCallbacks(filter: CallbackFilter): Promise<Page<CallbackSummary>> {
    return searchCallbacksByChunk(filter, SLICE_ROWS, (slice) => this.#read(['lookAtCallbacks', slice]))
  }

  searchJobs(search: JobSearch): Promise<JobPage> {
    return searchJobsByChunk(search, SLICE_ROWS, (slice) => this.#read(['lookAtJobs', slice]))
  }

  depth(): Promise<Depth> {
    return this.#read(['depth'])
  }

  ping(): Promise<void> {
    return this.#write(['probe', this.#nowMs()], true)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing = true
    await Promise.all([this.#writes.drained(), this.#reads.drained(), this.#bodies.drained()])
    const ended = new Promise((resolve) => this.#thread.once('exit', resolve))
    this.#thread.postMessage('close')
    await ended
  }

  #write<T>(op: Operation, sheddable = false): Promise<T> {
    return this.#writes.submit(op, sheddable)
  }

  #read<T>(op: Operation): Promise<T> {
    return this.#reads.submit(op)
  }

  #send(kind: Request['kind'], ops: Operation[]): Promise<OpResult[]> {
    const id = this.#nextRequest++
    return new Promise((resolve, reject) => {
      this.#replies.set(id, { resolve, reject })
      this.#thread.postMessage({ id, kind, ops } satisfies Request)
    })
  }

  /** Fills the index with the answers kept before this start. */
  async #readKeptAnswers(): Promise<void> {
    let after = 0
    while (!this.#closing) {
      const entries = await this.#read<[number, string, number][]>(['keptAnswersAfter', after, FILL_STEP])
      const nowMs = this.#nowMs()
      for (const [seq, fingerprint, untilMs] of entries) {
        if (untilMs > nowMs) this.#kept.note(fingerprint, seq, untilMs, nowMs)
        after = seq
      }
      if (entries.length < FILL_STEP) break
    }
    this.#keptComplete = true
  }
}

/** What of a settlement is stored, in the order of the operations `settle` and `acceptEnded`. */
function outcomeCells({ outcome, usage, receiptJson, cache: keep, nowMs }: Settlement) {
  const content = outcome.status === 'completed' ? outcome.contentJson : null
  const error = outcome.status === 'failed' ? JSON.stringify(outcome.error) : null
  const kept: KeepCells = [keep?.fingerprint ?? null, keep?.untilMs ?? 0]
  const ended: EndedCells = [outcome.status, content, error, JSON.stringify(usage), receiptJson]
  return [...ended, ...kept, nowMs] as const
}

const ERRORS = { unavailable: StoreUnavailable, rejected: WriteRejected, error: Error }

function toOpResult(result: Result): OpResult {
  if ('value' in result) return result
  return { error: new ERRORS[result.as](result.failed) }
}
