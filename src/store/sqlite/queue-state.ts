/**
 * How many jobs of a SQLite file are queued and assigned, and the row number of the next one, kept in memory: counting them
 * would take as long as the queue is. It follows the transactions: an operation that changes rows changes this too.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { QuotaSums } from './sums.ts'

interface Statements extends Pick<DatabaseSync, 'prepare'> {
  readonly quotas: Pick<QuotaSums, 'openJobs'>
}

export interface QueueSnapshot {
  readonly nextSeq: number
  readonly waiting: number
  readonly assigned: number
}

export class QueueState {
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

  /** Goes back to how it was before a transaction that was rolled back. */
  restore({ nextSeq, waiting, assigned }: QueueSnapshot): void {
    this.#nextSeq = nextSeq
    this.#waiting = waiting
    this.#assigned = assigned
  }

  /**
   * Reads it from the tables: at the start, and after others have ended jobs. The queued jobs are those that are open and not
   * assigned, because counting a million of them takes 0.3 s, in which the storage thread does nothing else.
   */
  recount(file: Statements): void {
    const numberOf = (sql: string) => Number(Object.values(file.prepare(sql).get() ?? { none: 0 })[0] ?? 0)
    // A cached response may outlive its job's other rows by a little, and its row number must not be used again.
    this.#nextSeq =
      Math.max(numberOf('select max(seq) from requests'), numberOf('select max(seq) from kept_answers')) + 1
    this.#assigned = numberOf('select count(*) from jobs indexed by jobs_held where node is not null')
    this.#waiting = file.quotas.openJobs(file) - this.#assigned
  }

  /** The row number of a new job. */
  takeSeq(): number {
    return this.#nextSeq++
  }

  /** A job is queued. */
  join(): void {
    this.#waiting += 1
  }

  /** A job is handed off: it is assigned without having waited. */
  handOff(): void {
    this.#assigned += 1
  }

  /** Queued jobs were claimed. */
  claim(jobs: number): void {
    this.#waiting -= jobs
    this.#assigned += jobs
  }

  /** Assigned jobs went back to the queue. */
  return(jobs: number): void {
    this.#waiting += jobs
    this.#assigned -= jobs
  }

  /** A queued job ended. */
  endQueued(): void {
    this.#waiting -= 1
  }

  /** An assigned job was settled. */
  settle(): void {
    this.#assigned -= 1
  }
}
