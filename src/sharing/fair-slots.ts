/**
 * Shares slots between accounts, such as those of an upstream: which account gets the next one, and how many one account may
 * hold. Of a node's slots, that is all but a sixteenth (`reserveOf`). At most `limit` are held at once.
 *
 * - The next free slot goes to the waiting account that holds fewest slots divided by its weight. Equal accounts take turns.
 *   Within an account, first come, first served. So an account gains nothing by having many waiting requests.
 * - Requests of a higher priority go first, whatever their account, but each lower priority with waiting requests gets a
 *   twentieth of the slots.
 * - The last `reserve` slots go only to accounts that hold fewer than `reserveUpTo`, so that one account cannot take all slots.
 */
import { LowerTurns, PRIORITIES, type Priority } from '../job/priority.ts'
import type { StopListener, StopSignal } from '../job/stop.ts'
import { Counts, type ReadonlyCounts } from './counts.ts'

export interface FairSlotsOptions {
  /** The limit may change. After it rises, waiting requests get slots at the next release, or with `limitChanged`. */
  readonly limit: number
  /** How many slots only accounts below `reserveUpTo` may use; 0 for no reserve. */
  readonly reserve: number
  /** An account may use the reserve while it holds fewer slots than this; 1 if absent. */
  readonly reserveUpTo?: number
}

interface WaitingRequest extends StopListener {
  readonly signal: StopSignal
  readonly resolve: (acquired: boolean) => void
}

interface WaitingAccount {
  weight: number
  /** A set keeps the order of arrival, and can remove any request in constant time. */
  readonly requests: Set<WaitingRequest>
}

type WaitingAccounts = Map<string, WaitingAccount>

export class FairSlots {
  readonly #options: FairSlotsOptions
  readonly #held = new Counts<string>()
  readonly #waiting = new Counts<string>()
  /** Contains the waiting requests of normal priority. An account that releases a slot moves to the end. */
  readonly #queue: WaitingAccounts = new Map()
  /** Null until a request with another priority has to wait. Until then, `#queue` has all waiting requests. */
  #queues: Readonly<Record<Priority, WaitingAccounts>> | null = null
  readonly #turns = new LowerTurns()
  readonly held: ReadonlyCounts<string> = this.#held
  readonly waiting: ReadonlyCounts<string> = this.#waiting

  constructor(options: FairSlotsOptions) {
    this.#options = options
  }

  get limit(): number {
    return this.#options.limit
  }

  /** Takes a slot if the account may have one now. Release each slot exactly once. */
  tryAcquire(account: string): boolean {
    if (!mayAcquire(this.#options, this.#held, account)) return false
    this.#held.add(account, 1)
    return true
  }

  /**
   * Waits for a slot. Returns true when the slot is taken, and false if the signal stopped the wait. Returns a promise only if
   * the account must wait.
   * @param weight while two accounts wait, the one with twice the weight holds about twice as many slots
   */
  acquire(
    account: string,
    weight: number,
    signal: StopSignal,
    priority: Priority = 'normal',
  ): boolean | Promise<boolean> {
    if (signal.reason !== null) return false
    if (this.tryAcquire(account)) return true
    if (priority !== 'normal') this.#queues ??= { high: new Map(), normal: this.#queue, low: new Map() }
    const queue = this.#queues?.[priority] ?? this.#queue
    return new Promise((resolve) => {
      const request: WaitingRequest = {
        signal,
        resolve,
        onStop: () => {
          this.#removeRequest(queue, account, request)
          resolve(false)
        },
      }
      signal.listen(request)
      this.#addRequest(queue, account, weight, request)
    })
  }

  /** Frees a slot of the account. A waiting request that gets it continues in a later microtask, never during this call. */
  release(account: string): void {
    this.#held.add(account, -1)
    if (this.#queue.size === 0 && this.#queues === null) return
    for (const queue of this.#queues === null ? [this.#queue] : Object.values(this.#queues)) {
      const waiting = queue.get(account)
      if (waiting === undefined) continue
      // The account moves to the end, so that accounts with equally many slots alternate.
      queue.delete(account)
      queue.set(account, waiting)
    }
    this.limitChanged()
  }

  /** Grants every waiting request that may have a slot now. Call this after the limit has changed. */
  limitChanged(): void {
    while (this.#waiting.total > 0 && this.#held.total < this.limit && this.#grantNext()) {}
  }

  #grantNext(): boolean {
    const queues = this.#queues
    if (queues === null) return this.#grantOf(this.#queue)
    const waits = (priority: Priority) => queues[priority].size > 0
    const due = PRIORITIES.filter((priority) => waits(priority) && this.#turns.due(priority) > 0)
    for (const priority of [...due, ...PRIORITIES]) {
      if (!this.#grantOf(queues[priority])) continue
      this.#turns.started(priority, 1, waits)
      return true
    }
    return false
  }

  /** The slot goes to the account that holds fewest slots for its weight, among those that may have one. */
  #grantOf(queue: WaitingAccounts): boolean {
    let next: string | null = null
    let fewest = Number.POSITIVE_INFINITY
    for (const [account, { weight }] of queue) {
      const share = this.#held.of(account) / weight
      if (share >= fewest || !mayAcquire(this.#options, this.#held, account)) continue
      next = account
      fewest = share
    }
    const request = next === null ? undefined : queue.get(next)?.requests.values().next().value
    if (next === null || request === undefined) return false
    this.#held.add(next, 1)
    this.#removeRequest(queue, next, request)
    request.signal.unlisten(request)
    request.resolve(true)
    return true
  }

  #addRequest(queue: WaitingAccounts, account: string, weight: number, request: WaitingRequest): void {
    const waiting = queue.get(account) ?? { weight, requests: new Set() }
    waiting.weight = weight
    waiting.requests.add(request)
    queue.set(account, waiting)
    this.#waiting.add(account, 1)
  }

  #removeRequest(queue: WaitingAccounts, account: string, request: WaitingRequest): void {
    const waiting = queue.get(account)
    if (!waiting?.requests.delete(request)) return
    if (waiting.requests.size === 0) queue.delete(account)
    this.#waiting.add(account, -1)
  }
}

/** This fraction of the slots is reserved, but at least one slot. */
const SLOT_RESERVE = 1 / 16
/** With fewer slots there is no reserve, because a single account would have too few. */
const LEAST_SLOTS_WITH_RESERVE = 4

export function reserveOf(slots: number): number {
  return slots < LEAST_SLOTS_WITH_RESERVE ? 0 : Math.max(1, Math.floor(slots * SLOT_RESERVE))
}

/** Returns how many slots are free without the reserve, so that any account may have them; 0 or less if there are none. */
export function freeSharedSlots({ limit, reserve }: FairSlotsOptions, held: ReadonlyCounts<string>): number {
  return limit - reserve - held.total
}

export function mayAcquire(slots: FairSlotsOptions, held: ReadonlyCounts<string>, account: string): boolean {
  const { limit, reserve } = slots
  if (held.total < limit - reserve) return true
  return held.total < limit && mayUseReserve(slots, held, account)
}

export function mayUseReserve(
  { reserveUpTo = 1 }: FairSlotsOptions,
  held: ReadonlyCounts<string>,
  account: string,
): boolean {
  return held.of(account) < reserveUpTo
}
