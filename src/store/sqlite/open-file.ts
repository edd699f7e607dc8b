/** Wraps an open SQLite file: its prepared statements, its transactions, and the state that is kept in memory. */
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
 * Keeps the number of queued and assigned jobs and the next row number in memory, because counting the rows of a long queue is
 * slow. Every operation that changes those rows must also change this state, except cancellations, which `takeCancelled` counts
 * later. A rollback restores it.
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

  restore({ nextSeq, waiting, assigned }: QueueSnapshot): void {
    this.#nextSeq = nextSeq
    this.#waiting = waiting
    this.#assigned = assigned
  }

  /**
   * Call this at the start, and after jobs were cancelled. Queued jobs are computed as the open jobs that are not assigned,
   * because counting a million of them directly would block the storage thread for 0.3 s.
   */
  recount(file: Statements): void {
    const numberOf = (sql: string) => Number(Object.values(file.prepare(sql).get() ?? { none: 0 })[0] ?? 0)
    // A cached response may be deleted slightly later than its job. If the row number were reused meanwhile, the response would
    // belong to another job.
    this.#nextSeq =
      Math.max(numberOf('select max(seq) from requests'), numberOf('select max(seq) from kept_answers')) + 1
    this.#assigned = numberOf('select count(*) from jobs indexed by jobs_held where node is not null')
    this.#waiting = file.quotas.openJobs(file) - this.#assigned
  }

  takeSeq(): number {
    return this.#nextSeq++
  }

  join(): void {
    this.#waiting += 1
  }

  handOff(): void {
    this.#assigned += 1
  }

  claim(jobs: number): void {
    this.#waiting -= jobs
    this.#assigned += jobs
  }

  return(jobs: number): void {
    this.#waiting += jobs
    this.#assigned -= jobs
  }

  endQueued(): void {
    this.#waiting -= 1
  }

  settle(): void {
    this.#assigned -= 1
  }
}

/** Threads exchange rows as arrays of cells, because copying objects costs several times more. */
export type Cell = string | number | null | Uint8Array

/** Any process may open the same file, such as a command while a server is running. */
export class OpenFile {
  readonly db: DatabaseSync
  readonly usage = new UsageSums()
  readonly quotas = new QuotaSums()
  readonly #statements = new Map<string, StatementSync>()
  readonly #cellStatements = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.db = db
  }

  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.db.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  cells(sql: string, ...values: Cell[]): Cell[][] {
    const rows: unknown[] = this.#prepareCells(sql).all(...values)
    return rows.map(asCells)
  }

  /** Reads the rows one by one, so that the caller can stop early. */
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

  /**
   * Rolls the transaction back if the work throws. Otherwise, the usage and quotas that the work has summed are written before
   * the commit.
   */
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

/** This server has locked the file. Commands may open it at the same time. */
export class ServedFile extends OpenFile {
  readonly queue: QueueState
  readonly places = new RoutePlaces()
  /** The round of expiry continues after this job ID. It is empty at the start of a round. */
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
