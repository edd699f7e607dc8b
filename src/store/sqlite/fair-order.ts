/**
 * Fair order (`job/tier.ts`) in SQLite: gives queued jobs their turns. The queue's turn and the accounts' next turns
 * are in memory too, so that a job needs no lookup; they follow the transactions of the file.
 */
import type { DatabaseSync } from 'node:sqlite'

type Statements = Pick<DatabaseSync, 'prepare'>

export class FairOrder {
  #turn: number
  readonly #nextTurns = new Map<string, number>()
  /** The account that was looked at last by a claim of accounts' first jobs. */
  accountCursor = ''

  constructor(file: Statements) {
    this.#turn = Number(file.prepare(READ_TURN).get()?.turn ?? 0)
  }

  /** The turn of the job claimed last. A job that goes back to the queue gets it again, so it is next. */
  get turn(): number {
    return this.#turn
  }

  /** Goes back to this turn, after a transaction that was rolled back. */
  restore(turn: number): void {
    this.#turn = turn
    this.#nextTurns.clear()
  }

  /** The turn of a job of the account that is queued now; moves the account's next one on by the step. */
  nextTurn(file: Statements, account: string, step: number): number {
    const next =
      this.#nextTurns.get(account) ?? Number(file.prepare(READ_NEXT_TURN).get(account)?.next_turn ?? 0)
    const turn = Math.max(this.#turn, next)
    this.#nextTurns.set(account, turn + step)
    file.prepare(WRITE_NEXT_TURN).run(account, turn + step)
    return turn
  }

  /** Jobs were claimed from the head of the queue, the last of them with this turn. */
  claimed(file: Statements, turn: number): void {
    this.#turn = Math.max(this.#turn, turn)
    file.prepare(WRITE_TURN).run(this.#turn)
  }
}

const READ_TURN = 'select turn from line'
const READ_NEXT_TURN = 'select next_turn from turns where account = ?'
const WRITE_NEXT_TURN = 'insert or replace into turns (account, next_turn) values (?, ?)'
const WRITE_TURN = 'update line set turn = ?'
