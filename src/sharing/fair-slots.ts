/**
 * Slots that accounts share, such as those of an upstream: at most `limit` are held at once.
 *
 * - The next free slot goes to the waiting account that holds fewest slots divided by its weight; among equals, to the one
 *   that released a slot longest ago. Within an account, first come, first served. An account with many waiting
 *   requests therefore delays another only until the next slot is released.
 * - The last `reserve` slots go only to accounts that hold none, so that one account can never hold all slots.
 *
 * A request never overtakes a waiting one: while a request waits, no slot that it could have is free.
 */
import type { StopListener, StopSignal } from '../job/stop.ts'
import { Counts, type ReadonlyCounts } from './counts.ts'

export interface FairSlotsOptions {
  /** It may change; a higher one takes effect at the next release, or with `limitChanged`. */
  readonly limit: number
  /** How many of the slots are reserved for accounts that hold none; 0 for no reserve. */
  readonly reserve: number
  /** How many slots an account may hold before it gets no more of the reserve; 1 if absent. */
  readonly reserveUpTo?: number
}

interface WaitingRequest extends StopListener {
  readonly signal: StopSignal
  readonly resolve: (acquired: boolean) => void
}

interface WaitingAccount {
  /** Of its latest request; an account has one weight unless its tier changes. */
  weight: number
  /** A set keeps the order of arrival and removes a request from its middle in constant time. */
  readonly requests: Set<WaitingRequest>
}

export class FairSlots {
  readonly #options: FairSlotsOptions
  readonly #held = new Counts<string>()
  readonly #waiting = new Counts<string>()
  /** Accounts with waiting requests, the one first that released a slot longest ago. */
  readonly #queue = new Map<string, WaitingAccount>()
  /** Slots by account. */
  readonly held: ReadonlyCounts<string> = this.#held
  /** Requests that wait for a slot, by account. */
  readonly waiting: ReadonlyCounts<string> = this.#waiting

  constructor(options: FairSlotsOptions) {
    this.#options = options
  }

  get limit(): number {
    return this.#options.limit
  }

  /** Takes a slot if the account may have one now. Each slot taken is released exactly once. */
  tryAcquire(account: string): boolean {
    if (!mayAcquire(this.#options, this.#held, account)) return false
    this.#held.add(account, 1)
    return true
  }

  /**
   * Waits for a slot. True once it is taken, false if the signal stopped the wait first. Returns a promise only if it has to
   * wait.
   * @param weight of the account: with twice the weight it may hold twice as many slots while others wait
   */
  acquire(account: string, weight: number, signal: StopSignal): boolean | Promise<boolean> {
    if (signal.reason !== null) return false
    if (this.tryAcquire(account)) return true
    return new Promise((resolve) => {
      const request: WaitingRequest = {
        signal,
        resolve,
        onStop: () => {
          this.#removeRequest(account, request)
          resolve(false)
        },
      }
      signal.listen(request)
      this.#addRequest(account, weight, request)
    })
  }

  /** Frees a slot of the account. A waiting request that gets it continues in a later microtask, never inside this call. */
  release(account: string): void {
    this.#held.add(account, -1)
    if (this.#queue.size === 0) return
    const waiting = this.#queue.get(account)
    if (waiting !== undefined) {
      // Moved to the end, so that accounts with equally many slots take turns.
      this.#queue.delete(account)
      this.#queue.set(account, waiting)
    }
    this.limitChanged()
  }

  /** Grants what waiting requests may have now; one release can make more than one of them eligible. */
  limitChanged(): void {
    for (let next = this.#next(); next !== null; next = this.#next()) this.#grant(next)
  }

  /** The account that gets the next slot, if one is free that a waiting account may have. */
  #next(): string | null {
    if (this.#queue.size === 0 || this.#held.total >= this.limit) return null
    let next: string | null = null
    let fewest = Number.POSITIVE_INFINITY
    for (const [account, { weight }] of this.#queue) {
      const share = this.#held.of(account) / weight
      if (share >= fewest || !mayAcquire(this.#options, this.#held, account)) continue
      next = account
      fewest = share
    }
    return next
  }

  #grant(account: string): void {
    const waiting = this.#queue.get(account)
    const request = waiting?.requests.values().next().value
    if (waiting === undefined || request === undefined) return
    this.#held.add(account, 1)
    this.#removeRequest(account, request)
    request.signal.unlisten(request)
    request.resolve(true)
  }

  #addRequest(account: string, weight: number, request: WaitingRequest): void {
    const waiting = this.#queue.get(account) ?? { weight, requests: new Set() }
    waiting.weight = weight
    waiting.requests.add(request)
    this.#queue.set(account, waiting)
    this.#waiting.add(account, 1)
  }

  #removeRequest(account: string, request: WaitingRequest): void {
    const waiting = this.#queue.get(account)
    if (!waiting?.requests.delete(request)) return
    if (waiting.requests.size === 0) this.#queue.delete(account)
    this.#waiting.add(account, -1)
  }
}

/** How many slots any account may have now: all free ones except the reserve. 0 or less if there are none. */
export function freeSharedSlots({ limit, reserve }: FairSlotsOptions, held: ReadonlyCounts<string>): number {
  return limit - reserve - held.total
}

/** Whether the account may have one more slot. */
export function mayAcquire(slots: FairSlotsOptions, held: ReadonlyCounts<string>, account: string): boolean {
  const { limit, reserve } = slots
  if (held.total < limit - reserve) return true
  return held.total < limit && mayUseReserve(slots, held, account)
}

/** Whether the account holds so few slots that it may have one of the reserve. */
export function mayUseReserve(
  { reserveUpTo = 1 }: FairSlotsOptions,
  held: ReadonlyCounts<string>,
  account: string,
): boolean {
  return held.of(account) < reserveUpTo
}
