/** An open SQLite file with its prepared statements, its transactions, and the state about it that is kept in memory. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { RoutePlaces } from '../route-places.ts'
import { QuotaSums, UsageSums } from './sums.ts'

interface Statements extends Pick<DatabaseSync, 'prepare'> {
  readonly quotas: Pick<QuotaSums, 'openJobs'>
}

interface QueueSnapshot {
  readonly nextSeq: number
  readonly waiting: number
  readonly assigned: number
}

/**
 * Keeps in memory how many jobs of a SQLite file are queued and assigned, and the next row number. Counting rows would take
 * longer the longer the queue is. An operation that changes rows must also change this state, and a rollback restores it.
 */
class QueueState {
  #nextSeq = 1
  #waiting = 0
  #assigned = 0

  constructor(file: Statements) {
    this.recount(file)
  }

  get waiting(): number {
    return this.#waiting
  }

  get assigned(): number {
    return this.#assigned
  }

  snapshot(): QueueSnapshot {
    return { nextSeq: this.#nextSeq, waiting: this.#waiting, assigned: this.#assigned }
  }

  /** Restores the state from before a transaction that was rolled back. */
  restore({ nextSeq, waiting, assigned }: QueueSnapshot): void {
    this.#nextSeq = nextSeq
    this.#waiting = waiting
    this.#assigned = assigned
  }

  /**
   * Counts the rows at the start, and after another process has finished jobs. Queued jobs are the open jobs that are not
   * assigned: counting a million of them directly would block the storage thread for 0.3 s.
   */
  recount(file: Statements): void {
    const numberOf = (sql: string) => Number(Object.values(file.prepare(sql).get() ?? { none: 0 })[0] ?? 0)
    // A cached response may be deleted slightly later than its job. Until then, its row number must not be reused.
    this.#nextSeq =
      Math.max(numberOf('select max(seq) from requests'), numberOf('select max(seq) from kept_answers')) + 1
    this.#assigned = numberOf('select count(*) from jobs indexed by jobs_held where node is not null')
    this.#waiting = file.quotas.openJobs(file) - this.#assigned
  }

  /** Returns the row number for a new job. */
  takeSeq(): number {
    return this.#nextSeq++
  }

  /** Records that a job was queued. */
  join(): void {
    this.#waiting += 1
  }

  /** A job was handed off: it was assigned without being queued. */
  handOff(): void {
    this.#assigned += 1
  }

  /** Records that queued jobs were claimed. */
  claim(jobs: number): void {
    this.#waiting -= jobs
    this.#assigned += jobs
  }

  /** Records that assigned jobs returned to the queue. */
  return(jobs: number): void {
    this.#waiting += jobs
    this.#assigned -= jobs
  }

  /** Records that a queued job finished. */
  endQueued(): void {
    this.#waiting -= 1
  }

  /** Records that an assigned job was settled. */
  settle(): void {
    this.#assigned -= 1
  }
}

/** The value of a column. Threads exchange rows as arrays of cells, because copying objects costs several times more. */
export type Cell = string | number | null | Uint8Array

/** A file that any process may open, such as a command while a server is running. */
export class OpenFile {
  readonly db: DatabaseSync
  readonly usage = new UsageSums()
  readonly quotas = new QuotaSums()
  readonly #statements = new Map<string, StatementSync>()
  readonly #cellStatements = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.db = db
  }

  /** Prepares a statement when it is first used. */
  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.db.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  /** Returns the rows of a select, each as an array of its columns. */
  cells(sql: string, ...values: Cell[]): Cell[][] {
    const rows: unknown[] = this.#prepareCells(sql).all(...values)
    return rows.map(asCells)
  }

  /** Reads the rows one by one. */
  *each(sql: string, ...values: Cell[]): Generator<Cell[]> {
    for (const row of this.#prepareCells(sql).iterate(...values)) yield asCells(row)
  }

  #prepareCells(sql: string): StatementSync {
    let statement = this.#cellStatements.get(sql)
    if (!statement) {
      statement = this.db.prepare(sql)
      statement.setReturnArrays(true)
      this.#cellStatements.set(sql, statement)
    }
    return statement
  }

  /** Runs the work in one transaction, which is rolled back if the work throws. */
  transaction<Result>(work: () => Result): Result {
    try {
      this.db.exec('begin immediate')
      const result = work()
      this.usage.write(this)
      this.quotas.write(this)
      this.db.exec('commit')
      return result
    } catch (error) {
      // SQLite rolls back by itself after some errors, such as a full disk.
      if (this.db.isTransaction) this.db.exec('rollback')
      this.usage.forget()
      this.quotas.forget()
      throw error
    }
  }
}

/** A file that its only server has opened. Commands may open it at the same time. */
export class ServedFile extends OpenFile {
  readonly queue: QueueState
  readonly places = new RoutePlaces()
  /** The last job that the deletion of expired jobs has examined in this round; empty at the start of a round. */
  expiryCursor = ''

  constructor(db: DatabaseSync) {
    super(db)
    this.queue = new QueueState(this)
  }

  override transaction<Result>(work: () => Result): Result {
    const before = this.queue.snapshot()
    try {
      return super.transaction(work)
    } catch (error) {
      this.queue.restore(before)
      this.places.clear()
      throw error
    }
  }
}

function asCells(row: unknown): Cell[] {
  if (!Array.isArray(row)) throw new Error('SQLite returned a row that is not an array')
  return row
}
