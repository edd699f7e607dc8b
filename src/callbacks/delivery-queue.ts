/**
 * A lane of callbacks: takes those that are due from the store while there are places, and sends each when its
 * destination has room. What finds no room waits here, or is put aside in the store and fetched when there is.
 */
import type { Clock } from '../clock.ts'
import type { DeferredCallback, DueCallback, TakenBefore } from '../store/callback-store.ts'
import { ConcurrencyLimits } from './concurrency-limits.ts'
import { DeferredDeliveries, postponed } from './deferred-deliveries.ts'
import type { Receiver, Receivers } from './receivers.ts'

/** Callbacks taken at once. */
const MOST_TAKEN = 128
/** Fewer are not worth a transaction of their own while others are under way. */
const LEAST_TAKEN = 32
/** Callbacks that one look puts aside at most: each is a write more. */
const MOST_PUT_ASIDE = 2048
/** How often it looks whether there is room for those that wait or were postponed. */
const LOOK_MS = 100

export interface DeliveryQueueOptions {
  readonly places: number
  /** Callbacks that may wait here for one destination. */
  readonly waitingEach: number
  readonly destinations: Receivers
  readonly clock: Clock
  readonly take: (limit: number) => Promise<readonly DueCallback[]>
  readonly takePostponed: (postponed: readonly TakenBefore[]) => Promise<readonly DueCallback[]>
  /** Sends it and records what came of it; `sent` is to be called in between. Never rejects. */
  readonly deliver: (due: DueCallback, sent: Sent) => Promise<void>
  readonly postpone: (postponed: readonly DeferredCallback[]) => Promise<void>
  /** Whether it is owed for longer than all its attempts would have taken. */
  readonly isOverdue: (due: DueCallback) => boolean
  /** Records that it has failed for good, without another attempt. Never rejects. */
  readonly end: (due: DueCallback) => Promise<void>
  readonly onTrouble: (error: unknown) => void
}

/** What an attempt said of its receiver; null for nothing. */
export type Sent = (keptUp: boolean | null) => void

export class DeliveryQueue {
  readonly #options: DeliveryQueueOptions
  readonly #places: ConcurrencyLimits
  readonly #waiting = new Map<Receiver, DueCallback[]>()
  readonly #postponed = new DeferredDeliveries()
  readonly #fetching = new Set<Receiver>()
  #due = true
  #taking = false
  #stopped = false
  #isLooking = false
  /** Attempts that have ended since the last look. */
  #ended = 0
  #overtaking: TakenBefore[] = []
  #isOvertaking = false
  #cancelLook: () => void = () => {}
  #onIdle: (() => void)[] = []

  constructor(options: DeliveryQueueOptions) {
    this.#options = options
    this.#places = new ConcurrencyLimits(options.places, options.waitingEach, options.destinations)
  }

  get underWay(): number {
    return this.#places.underWay
  }

  /** A callback has become due. If it may have a place that those before it may not, it is fetched at once. */
  wake(account: string, jobId: string): void {
    this.#due = true
    this.#takeSoon(1)
    if (this.#places.common > 0 || !this.#places.mayHaveLast(account)) return
    this.#overtaking.push({ jobId, attempts: 0 })
    void this.#overtake()
  }

  /**
   * Callbacks may have become due. Where accounts have all places that they may have, and these are slow to be free again,
   * callbacks are put aside to find those of others behind them.
   */
  look(): void {
    this.#due = true
    this.#takeSoon(1)
    const isStuck = this.#places.common <= 0 && this.#ended < this.#places.all
    this.#ended = 0
    if (!isStuck) return
    let left = MOST_PUT_ASIDE
    void this.#takeAll(() => {
      const most = Math.min(left, MOST_TAKEN)
      left -= most
      return this.#places.free > 0 ? most : 0
    })
  }

  /** Takes no more; what waits here goes back into the store. Resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelLook()
    const nowMs = this.#options.clock.nowMs()
    const waiting = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    await this.#giveBack(waiting, nowMs)
    if (this.#isIdle) return
    await new Promise<void>((resolve) => this.#onIdle.push(resolve))
  }

  get #isIdle(): boolean {
    const isTaking = this.#taking || this.#isOvertaking || this.#fetching.size > 0
    return this.#places.underWay === 0 && !isTaking
  }

  #takeSoon(least: number): void {
    if (this.#due && this.#places.common >= least) {
      void this.#takeAll(() => Math.min(this.#places.common, MOST_TAKEN))
    }
  }

  /** @param most how many are to be taken next; none ends it */
  async #takeAll(most: () => number): Promise<void> {
    if (this.#taking || this.#stopped) return
    this.#taking = true
    try {
      for (let limit = most(); this.#due && limit > 0 && !this.#stopped; limit = most()) {
        this.#due = false
        const taken = await this.#options.take(limit)
        if (taken.length === limit) this.#due = true
        await this.#sort(taken)
      }
    } catch (error) {
      // The next look is within a second.
      this.#options.onTrouble(error)
    } finally {
      this.#taking = false
      this.#idleIfSo()
    }
  }

  async #sort(taken: readonly DueCallback[]): Promise<void> {
    const { destinations, clock, isOverdue, end } = this.#options
    if (this.#stopped) return this.#giveBack(taken, clock.nowMs())
    const back = new Map<Receiver, DueCallback[]>()
    for (const due of taken) {
      const destination = destinations.of(due.account, due.url)
      if (this.#places.mayGo(destination)) this.#send(due, destination)
      else if (this.#places.mayWait(destination)) this.#wait(due, destination)
      else if (destination.isFailing && isOverdue(due)) await end(due)
      else {
        const others = back.get(destination) ?? []
        others.push(due)
        back.set(destination, others)
      }
    }
    await this.#postpone(back)
  }

  async #postpone(back: ReadonlyMap<Receiver, readonly DueCallback[]>): Promise<void> {
    const nowMs = this.#options.clock.nowMs()
    const all = [...back].flatMap(([destination, callbacks]) =>
      callbacks.map((due) => postponed(due, destination, nowMs)),
    )
    if (all.length > 0) await this.#options.postpone(all)
    for (const [destination, callbacks] of back) this.#postponed.add(callbacks, destination)
    this.#lookAgain()
  }

  #wait(due: DueCallback, destination: Receiver): void {
    const waiting = this.#waiting.get(destination) ?? []
    waiting.push(due)
    this.#waiting.set(destination, waiting)
    this.#places.wait(destination, 1)
  }

  #send(due: DueCallback, destination: Receiver): void {
    const leave = this.#places.enter(destination)
    const sent: Sent = (keptUp) => {
      leave.destination(keptUp)
      this.#sendWaiting()
    }
    const end = () => {
      leave.place()
      this.#ended += 1
      this.#idleIfSo()
      this.#sendWaiting()
      this.#fetch(destination)
      this.#takeSoon(Math.min(LEAST_TAKEN, this.#places.mostCommon))
    }
    void this.#options.deliver(due, sent).finally(end)
  }

  #sendWaiting(): void {
    for (const [destination, waiting] of this.#waiting) {
      let sent = 0
      for (const due of waiting) {
        if (!this.#places.mayGo(destination)) break
        sent += 1
        this.#send(due, destination)
      }
      this.#noLongerWaiting(destination, waiting, sent)
      if (destination.isFailing && waiting.length > 0) this.#giveUpWaiting(destination, waiting)
    }
  }

  /** The receiver hangs or fails, so there is no telling how long they would wait. */
  #giveUpWaiting(destination: Receiver, waiting: DueCallback[]): void {
    const back = new Map([[destination, [...waiting]]])
    this.#noLongerWaiting(destination, waiting, waiting.length)
    this.#postpone(back).catch(this.#options.onTrouble)
  }

  #noLongerWaiting(destination: Receiver, waiting: DueCallback[], count: number): void {
    if (count === 0) return
    waiting.splice(0, count)
    this.#places.wait(destination, -count)
    if (waiting.length === 0) this.#waiting.delete(destination)
  }

  /** Fetches what was postponed for want of room there, if there is some now. */
  #fetch(destination: Receiver): void {
    const { takePostponed, onTrouble } = this.#options
    if (this.#stopped || this.#fetching.has(destination)) return
    if (this.#waiting.has(destination) || !this.#places.mayGo(destination)) return
    const fetched = this.#postponed.fetch(destination, this.#places.roomFor(destination))
    if (fetched.length === 0) return
    this.#fetching.add(destination)
    takePostponed(fetched)
      .then((taken) => this.#sort(taken))
      .catch(onTrouble)
      .finally(() => {
        this.#fetching.delete(destination)
        this.#idleIfSo()
      })
  }

  /**
   * As long as anything waits or is postponed: room may have come by the other lane, or by another destination of the same
   * origin or account.
   */
  #lookAgain(): void {
    const { clock } = this.#options
    const isNeeded = this.#waiting.size > 0 || !this.#postponed.isEmpty
    if (this.#isLooking || this.#stopped || !isNeeded) return
    this.#isLooking = true
    this.#cancelLook = clock.after(LOOK_MS, () => {
      this.#isLooking = false
      this.#sendWaiting()
      for (const destination of [...this.#postponed.destinations]) this.#fetch(destination)
      this.#lookAgain()
    })
  }

  /** Those that came meanwhile go together. */
  async #overtake(): Promise<void> {
    if (this.#isOvertaking) return
    this.#isOvertaking = true
    try {
      while (this.#overtaking.length > 0 && !this.#stopped) {
        await this.#sort(await this.#options.takePostponed(this.#overtaking.splice(0, MOST_TAKEN)))
      }
    } catch (error) {
      // They are taken in their turn.
      this.#options.onTrouble(error)
    } finally {
      this.#isOvertaking = false
      this.#idleIfSo()
    }
  }

  /** Untried, due at once, for whoever takes them next. */
  async #giveBack(callbacks: readonly DueCallback[], nowMs: number): Promise<void> {
    if (callbacks.length === 0) return
    const back = callbacks.map(({ jobId, attempt }) => ({ jobId, attempt, dueAtMs: nowMs }))
    await this.#options.postpone(back)
  }

  #idleIfSo(): void {
    if (this.#isIdle) for (const resolve of this.#onIdle.splice(0)) resolve()
  }
}
