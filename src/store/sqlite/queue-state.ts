/**
 * What the server keeps in memory about the queue of its SQLite file: counting it would take as long as the queue is, and
 * fair order would need a look-up for each job. It follows the transactions: an operation that changes rows changes this too.
 *
 * Fair order is start-time fair queueing: a job that must wait takes as its turn the later of the queue's turn (that of the
 * job claimed last) and its account's next turn, and moves the latter on by its step. So an account with a hundred thousand
 * queued jobs delays only its own, and a claim stays one index scan.
 */
import type { DatabaseSync } from 'node:sqlite'

type Statements = Pick<DatabaseSync, 'prepare'>

export interface QueueSnapshot {
  readonly nextSeq: number
  readonly turn: number
  readonly waiting: number
  readonly assigned: number
}

export class QueueState {
  #nextSeq = 1
  #turn = 0
  #waiting = 0
  #assigned = 0
  readonly #nextTurns = new Map<string, number>()
  /** The account that was looked at last by a claim of accounts' first jobs. */
  accountCursor = ''

  constructor(file: Statements) {
    this.recount(file)
  }

  /** The turn of the job claimed last. */
  get turn(): number {
    return this.#turn
  }

  get waiting(): number {
    return this.#waiting
  }

  get assigned(): number {
    return this.#assigned
  }

  snapshot(): QueueSnapshot {
    return { nextSeq: this.#nextSeq, turn: this.#turn, waiting: this.#waiting, assigned: this.#assigned }
  }

  /** Goes back to how it was before a transaction that was rolled back. */
  restore({ nextSeq, turn, waiting, assigned }: QueueSnapshot): void {
    this.#nextSeq = nextSeq
    this.#turn = turn
    this.#waiting = waiting
    this.#assigned = assigned
    this.#nextTurns.clear()
  }

  /** Reads it from the tables: at the start, and after others have ended jobs. */
  recount(file: Statements): void {
    const numberOf = (sql: string) => Number(Object.values(file.prepare(sql).get() ?? { none: 0 })[0] ?? 0)
    // A cached response may outlive its job's other rows by a little, and its row number must not be used again.
    this.#nextSeq =
      Math.max(numberOf('select max(seq) from requests'), numberOf('select max(seq) from kept_answers')) + 1
    this.#turn = numberOf('select turn from line')
    this.#waiting = numberOf('select count(*) from jobs indexed by jobs_by_age where turn is not null')
    this.#assigned = numberOf('select count(*) from jobs indexed by jobs_held where node is not null')
    this.#nextTurns.clear()
  }

  /** The row number of a new job. */
  takeSeq(): number {
    return this.#nextSeq++
  }

  /** A job joins the queue; returns its turn. */
  join(file: Statements, account: string, step: number): number {
    const next =
      this.#nextTurns.get(account) ?? Number(file.prepare(READ_NEXT_TURN).get(account)?.next_turn ?? 0)
    const turn = Math.max(this.#turn, next)
    this.#nextTurns.set(account, turn + step)
    file.prepare(WRITE_NEXT_TURN).run(account, turn + step)
    this.#waiting += 1
    return turn
  }

  /** A job is handed off: it is assigned without having waited. */
  handOff(): void {
    this.#assigned += 1
  }

  /** Queued jobs were claimed, the last of them with this turn. */
  claim(file: Statements, jobs: number, turn: number): void {
    this.#turn = Math.max(this.#turn, turn)
    file.prepare(WRITE_TURN).run(this.#turn)
    this.#waiting -= jobs
    this.#assigned += jobs
  }

  /** Assigned jobs went back to the queue. */
  return(jobs: number): void {
    this.#waiting += jobs
    this.#assigned -= jobs
  }

  /** An assigned job was settled. */
  settle(): void {
    this.#assigned -= 1
  }
}

const READ_NEXT_TURN = 'select next_turn from turns where account = ?'
const WRITE_NEXT_TURN = 'insert or replace into turns (account, next_turn) values (?, ?)'
const WRITE_TURN = 'update line set turn = ?'
