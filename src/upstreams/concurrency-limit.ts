/**
 * How many calls may be made to an upstream at once. A server's own limit is seldom known: one with a single slot takes any
 * number of calls, and answers most of them too late. So the limit starts low, doubles after each full window of successes up to
 * the ceiling, and halves when the server answers 429 or 503 or not in time.
 *
 * A window is full while the limit is what keeps further calls waiting: successes of a server that is not busy prove nothing.
 * Back to where it failed it goes eight times as slowly.
 */
import type { FairSlotsOptions } from '../sharing/fair-slots.ts'

/** The initial limit if nothing is known about the server. */
export const START_CONCURRENCY = 8
/** Full windows before the limit returns to where it failed. */
const CAUTIOUS_WINDOWS = 8

export class ConcurrencyLimit implements FairSlotsOptions {
  readonly reserve = 0
  readonly ceiling: number
  readonly #isFixed: boolean
  /** Only this class writes it. */
  limit: number
  /**
   * Counts changes of the limit: calls that started before the last change show nothing about the current limit. Only this
   * class writes it.
   */
  changes = 0
  /** The highest limit at which a full window has succeeded. */
  #proven = 0
  /** The lowest limit that was too high. */
  #failedAt = Number.POSITIVE_INFINITY
  #successes = 0

  /** @param start null for a limit that never changes */
  constructor(ceiling: number, start: number | null) {
    this.ceiling = ceiling
    this.#isFixed = start === null
    this.limit = Math.min(start ?? ceiling, ceiling)
  }

  /**
   * @param begun the value of `changes` when the call started
   * @param isFull whether as many calls as the limit permits were in progress
   */
  succeeded(begun: number, isFull: boolean): void {
    if (this.#isFixed || !isFull || begun !== this.changes) return
    this.#successes += 1
    if (this.#successes < this.limit) return
    this.#proven = Math.max(this.#proven, this.limit)
    const next = Math.min(this.limit * 2, this.ceiling)
    const isCautious = next >= this.#failedAt
    if (next === this.limit || (isCautious && this.#successes < CAUTIOUS_WINDOWS * this.limit)) return
    this.#change(next)
    if (isCautious) this.#failedAt = Number.POSITIVE_INFINITY
  }

  /**
   * A call got a 429 or 503, or no response in time. Returns whether more calls were in progress than the server has ever
   * served at once, so that neither the server nor the job is to blame.
   * @param begun the value of `changes` when the call started
   */
  overloaded(begun: number): boolean {
    if (this.#isFixed) return false
    // The limit has already been halved for calls that started together with this one.
    if (begun !== this.changes) return true
    const isUnproven = this.limit > Math.max(1, this.#proven)
    this.#failedAt = this.limit
    const half = Math.max(1, Math.floor(this.limit / 2))
    this.#proven = Math.min(this.#proven, half)
    this.#change(half)
    return isUnproven
  }

  #change(limit: number): void {
    this.limit = limit
    this.#successes = 0
    this.changes += 1
  }
}
