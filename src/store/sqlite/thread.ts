/**
 * The storage thread: it alone touches the database file, so that a slow disk never holds up the HTTP loop. It answers
 * groups of operations, a group of writes in one transaction.
 */
import type { DatabaseSync } from 'node:sqlite'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { DatabaseProblem } from '../database-problem.ts'
import type { Claim } from '../node-store.ts'
import { SqliteInterventions } from './admin-actions.ts'
import { SqliteCallbackRecords } from './callback-records.ts'
import { SqliteCallbacks } from './callbacks.ts'
import { type Direct, type DirectOperation, directOn } from './direct.ts'
import { SqliteExpiry } from './expire.ts'
import { lockForServing, migrate, openFile, scrub } from './file.ts'
import { SqliteJobRecords } from './job-records.ts'
import { type Kept, SqliteJobs } from './jobs.ts'
import type { Failure, Operation, Reply, Request, Result } from './operations.ts'
import { SqliteReading } from './read.ts'
import { SqliteUsage } from './usage.ts'

/** SQLite's primary result codes that may pass: busy, locked, no memory, read-only, I/O, full, cannot open. */
const PASSING_CODES: readonly number[] = [5, 6, 7, 8, 10, 13, 14]
/** Those that say what is wrong with the row itself: too big, constraint, mismatch. */
const REJECTING_CODES: readonly number[] = [18, 19, 20]

const REMEDY = 'See to free disk and to the rights on the file, and start again.'

const MESSAGES_AT_ONCE = 16

class StorageThread {
  readonly #db: DatabaseSync
  /** Never read, but it must stay referenced: the lock goes when the handle is collected. */
  readonly lock: DatabaseSync
  readonly #usage: SqliteUsage
  readonly #jobs: SqliteJobs
  readonly #direct: Direct
  readonly #interventions: SqliteInterventions
  readonly #reading: SqliteReading
  readonly #expiry: SqliteExpiry
  readonly #callbacks: SqliteCallbacks
  readonly #records: SqliteCallbackRecords
  readonly #jobRecords: SqliteJobRecords

  constructor(path: string) {
    // The lock first: while a copy fills the file it cannot even be opened.
    this.lock = lockForServing(path)
    this.#db = openFile(path)
    migrate(this.#db)
    this.#usage = new SqliteUsage(this.#db)
    this.#jobs = new SqliteJobs(this.#db, this.#usage)
    this.#direct = directOn(this.#db, this.#usage)
    this.#interventions = new SqliteInterventions(this.#db, this.#usage)
    this.#reading = new SqliteReading(this.#db)
    this.#expiry = new SqliteExpiry(this.#db)
    this.#callbacks = new SqliteCallbacks(this.#db)
    this.#records = new SqliteCallbackRecords(this.#db)
    this.#jobRecords = new SqliteJobRecords(this.#db)
  }

  /** Answers requests that came while another was being answered: all their writes in one transaction. */
  answer(requests: readonly Request[]): Reply[] {
    const writes = requests.filter(({ kind }) => kind === 'write')
    const results = this.#commit(writes.flatMap(({ ops }) => ops))
    let at = 0
    return requests.map(({ id, kind, ops }) => {
      if (kind === 'read') return { id, results: ops.map((op) => this.#alone(op)) }
      at += ops.length
      return { id, results: results.slice(at - ops.length, at) }
    })
  }

  close(): void {
    this.#db.close()
    this.lock.close()
  }

  #commit(ops: readonly Operation[]): Result[] {
    if (ops.length === 0) return []
    const before = this.#jobs.kept()
    try {
      this.#db.exec('begin immediate')
      const results = ops.map((op) => ({ value: this.#run(op) }))
      this.#usage.flush()
      this.#db.exec('commit')
      return results
    } catch (error) {
      this.#rollBack(before)
      if (ops.length === 1) return [failure(error)]
      // One operation may be at fault, or the group may be too large for what is left of the disk: each on its own.
      return ops.map((op) => this.#commit([op])[0] ?? failure(error))
    }
  }

  #rollBack(before: Kept): void {
    // SQLite has already rolled back by itself after some errors, such as a full disk.
    if (this.#db.isTransaction) this.#db.exec('rollback')
    this.#usage.forget()
    this.#jobs.restore(before)
  }

  #takeCancelled(): Claim[] {
    const taken = this.#interventions.takeCancelled()
    // They were in line or held until then, whoever took them out, a command beside this server perhaps.
    if (taken.length > 0) this.#jobs.recount()
    return taken
  }

  #alone(op: Operation): Result {
    try {
      return { value: this.#run(op) }
    } catch (error) {
      return failure(error)
    }
  }

  #run(op: Operation): unknown {
    switch (op[0]) {
      case 'accept':
        return this.#jobs.accept(op[1], op[2], op[3], op[4])
      case 'acceptEnded': {
        const [, row, status, content, error, usage, receipt, fingerprint, untilMs, nowMs] = op
        const keep = fingerprint === null ? null : { fingerprint, untilMs }
        return this.#jobs.acceptEnded(row, { status, content, error, usage, receipt }, keep, nowMs)
      }
      case 'claim':
        return this.#jobs.claim(op[1], op[2], op[3], op[4])
      case 'settle': {
        const [, jobId, node, attempt, status, content, error, usage, receipt, fingerprint, untilMs, nowMs] =
          op
        const keep = fingerprint === null ? null : { fingerprint, untilMs }
        const ended = { status, content, error, usage, receipt }
        return this.#jobs.settle({ jobId, node, attempt }, ended, keep, nowMs)
      }
      case 'giveBack':
        return this.#jobs.giveBack(op[1], op[2])
      case 'reclaim':
        this.#callbacks.reclaim(op[1], op[2])
        return this.#jobs.reclaim(op[1])
      case 'expire':
        return this.#expiry.step(op[1])
      case 'probe':
        return this.#jobs.probe(op[1])
      case 'findResponse':
        return this.#reading.keptAnswer(op[1], op[2], op[3])
      case 'read':
        return this.#reading.job(op[1], op[2], op[3])
      case 'readEnded':
        return this.#reading.endedJobs(op[1])
      case 'held':
        return this.#reading.heldBy(op[1])
      case 'keptAnswersAfter':
        return this.#reading.keptAnswersAfter(op[1], op[2])
      case 'depth':
        return this.#jobs.depth()
      default:
        return this.#runOnRecords(op)
    }
  }

  #runOnRecords(op: Operation): unknown {
    switch (op[0]) {
      case 'takeCallbacks':
        return this.#callbacks.take(op[1])
      case 'takePostponed':
        return this.#callbacks.takePostponed(op[1])
      case 'loadCallbacks':
        return this.#callbacks.load(op[1])
      case 'recordCallback':
        return this.#callbacks.record(op[1], op[2], op[3], op[4], op[5], op[6], op[7])
      case 'postponeCallbacks':
        return this.#callbacks.postpone(op[1], op[2])
      case 'callbackDepth':
        return this.#callbacks.depth()
      case 'lookAtCallbacks':
        return this.#records.look(op[1])
      case 'lookAtJobs':
        return this.#jobRecords.look(op[1])
      case 'takeCancelled':
        return this.#takeCancelled()
      case 'scrub':
        return scrub(this.#db)
      default:
        return this.#runDirect(op as DirectOperation)
    }
  }

  #runDirect([name, ...args]: DirectOperation): unknown {
    const method = this.#direct[name] as ((...args: readonly unknown[]) => unknown) | undefined
    if (!method) throw new Error(`the storage thread knows no operation ${name}`)
    return method(...args)
  }
}

function failure(error: unknown): Result {
  return { failed: error instanceof Error ? error.message : String(error), as: meaningOf(error) }
}

function meaningOf(error: unknown): Failure {
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0
  if (PASSING_CODES.includes(code)) return 'unavailable'
  return REJECTING_CODES.includes(code) ? 'rejected' : 'error'
}

type Message = Request | 'close'

/** What has come since, up to a bound, so that one transaction stays short. */
function* waitingMessages(port: MessagePort): Generator<Message> {
  for (let count = 1; count < MESSAGES_AT_ONCE; count++) {
    const next = receiveMessageOnPort(port)
    if (!next) return
    yield next.message as Message
  }
}

/** Started as a thread: says `ready`, or why not, then answers requests until it is told to close. */
function serve(port: MessagePort): void {
  let thread: StorageThread
  try {
    thread = new StorageThread(String(workerData.path))
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const passing = meaningOf(error) === 'unavailable'
    const notReady = passing ? `The database ${workerData.path} cannot be used: ${why}. ${REMEDY}` : why
    port.postMessage({ notReady, mend: passing || error instanceof DatabaseProblem })
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
  port.postMessage('ready')
}

if (parentPort) serve(parentPort)
