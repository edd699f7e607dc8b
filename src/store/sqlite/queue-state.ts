/**
 * Keeps in memory how many jobs of a SQLite file are queued and assigned, and the next row number. Counting rows would take
 * longer the longer the queue is. An operation that changes rows must also change this state, and a rollback restores it.
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
