/** An open SQLite file with its prepared statements, its transactions, and the state about it that is kept in memory. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { RoutePlaces } from '../route-places.ts'
import { QueueState } from './queue-state.ts'
import { QuotaSums, UsageSums } from './sums.ts'

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
