/**
 * Finds out how many calls an upstream can handle at once. A server's own limit is seldom known: a server with a single slot
 * accepts any number of calls and answers most of them too late. The limit starts low, doubles after each full window of
 * successes up to the ceiling, and halves when the server is overloaded (429, 498, 503, 529) or does not respond in time. A
 * success counts only while all slots are in use, because successes of an idle server prove nothing. Growth to a limit that
 * failed before is eight times slower.
 *
 * One account may cause an overload by itself. So while calls of other accounts succeed, the limit falls only if a second
 * account sees the overload within a minute. If no other account was calling, the limit falls at once; but if another account's
 * next call within a minute succeeds, the limit returns to its earlier value.
 */
import type { FairSlots, FairSlotsOptions } from '../sharing/fair-slots.ts'

export const START_CONCURRENCY = 8
const CAUTIOUS_WINDOWS = 8
/** An account's overload or success matters for the calls of other accounts during this time. */
export const OVERLOAD_MS = 60_000

/** An account last saw a success or an overload at this time (steady clock). */
interface Seen {
  readonly account: string
  atMs: number
}

const NEVER: Seen = { account: '', atMs: Number.NEGATIVE_INFINITY }

export class ConcurrencyLimit implements FairSlotsOptions {
  readonly reserve = 0
  readonly ceiling: number
  readonly isFixed: boolean
  /** Only this class writes this field. */
  found: number
  /** The limit, or 0 while the slots are blocked. This is a field instead of a getter, because every call reads it. */
  limit: number
  /** Counts changes of the limit, because calls that started before a change show nothing about the new limit. */
  changes = 0
  /** A full window has succeeded at this limit, or at a higher one before the last overload. */
  #proven = 0
  /**
   * This is the limit at the last overload that lowered it. It is infinite once cautious growth has reached that limit again.
   */
  #failedAt = Number.POSITIVE_INFINITY
  #successes = 0
  #blocks = 0
  #overload = NEVER
  /** This account was the only one to call when it saw the last overload. `limit` was the limit before that overload. */
  #lone = { ...NEVER, limit: 0 }
  #success = NEVER
  #otherSuccess = NEVER

  /** @param start null for a limit that never changes */
  constructor(ceiling: number, start: number | null) {
    this.ceiling = ceiling
    this.isFixed = start === null
    this.found = Math.min(start ?? ceiling, ceiling)
    this.limit = this.found
  }

  /** Blocks the slots, or ends one block. Isolated jobs of several targets may block them at the same time. */
  block(isBlocked: boolean): void {
    this.#blocks += isBlocked ? 1 : -1
    this.limit = this.#blocks > 0 ? 0 : this.found
  }

  /**
   * @param begun the value of `changes` when the call started
   * @param slots the slots that were held when the call ended
   */
  succeeded(account: string, begun: number, nowMs: number, { held }: Pick<FairSlots, 'held'>): void {
    if (this.isFixed) return
    if (this.#success.account === account) this.#success.atMs = nowMs
    else {
      this.#otherSuccess = this.#success
      this.#success = { account, atMs: nowMs }
    }
    if (account !== this.#lone.account && nowMs - this.#lone.atMs <= OVERLOAD_MS) {
      const { limit } = this.#lone
      this.#lone = { ...NEVER, limit }
      // The limit may have grown beyond its earlier value since.
      if (limit > this.found) {
        this.#change(limit)
        return
      }
    }
    if (begun < this.changes || held.total < this.found) return
    this.#successes += 1
    if (this.#successes < this.found) return
    this.#proven = Math.max(this.#proven, this.found)
    const next = Math.min(this.found * 2, this.ceiling)
    const isCautious = next >= this.#failedAt
    if (next === this.found || (isCautious && this.#successes < CAUTIOUS_WINDOWS * this.found)) return
    this.#change(next)
    if (isCautious) this.#failedAt = Number.POSITIVE_INFINITY
  }

  /**
   * Records that a call was rejected because of an overload, or got no response in time. Returns true if the upstream had more
   * calls than it is known to handle, or if the limit has changed since the call started. The job is then not to blame.
   * @param begun the value of `changes` when the call started
   */
  overloaded(account: string, begun: number, nowMs: number): boolean {
    if (this.isFixed) return false
    // Another account sees the overload, too, so a later success must not restore the limit.
    if (account !== this.#lone.account) this.#lone.atMs = NEVER.atMs
    // A call that started together with this one has already halved the limit.
    if (begun < this.changes) return true
    const isUnproven = this.found > Math.max(1, this.#proven)
    const { account: before, atMs } = this.#overload
    this.#overload = { account, atMs: nowMs }
    const isSeenByTwo = before !== account && nowMs - atMs <= OVERLOAD_MS
    const others = this.#success.account === account ? this.#otherSuccess : this.#success
    if (!isSeenByTwo) {
      if (nowMs - others.atMs <= OVERLOAD_MS) return isUnproven
      const limit = nowMs - this.#lone.atMs <= OVERLOAD_MS ? this.#lone.limit : this.found
      this.#lone = { account, atMs: nowMs, limit }
    }
    this.#failedAt = this.found
    const half = Math.max(1, Math.floor(this.found / 2))
    this.#proven = Math.min(this.#proven, half)
    this.#change(half)
    return isUnproven
  }

  #change(limit: number): void {
    if (this.limit > 0) this.limit = limit
    this.found = limit
    this.#successes = 0
    this.changes += 1
    this.#overload = NEVER
  }
}

/**
 * Returns how many more calls can start soon: the free slots plus an eighth of the limit (at least 1), less the waiting calls.
 */
export function freeCalls({ held, limit, waiting }: Pick<FairSlots, 'held' | 'limit' | 'waiting'>): number {
  return limit - held.total + Math.max(1, Math.floor(limit / 8)) - waiting.total
}
