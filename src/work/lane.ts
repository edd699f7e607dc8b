/**
 * A lane of callbacks: takes those that are due from the store while there are places, and sends each when its
 * destination has room. What finds no room waits here, or goes back into the store until its turn may have come.
 *
 * Destinations that are not known to answer may have half of the places together, and those of one account an eighth. So
 * however many receivers hang, and whoever made them hang, there are places for those that answer.
 */
import type { Clock } from '../clock.ts'
import type { DueCallback, PostponedCallback } from '../store/callback-store.ts'
import type { Destination, Destinations } from './destinations.ts'

/** Callbacks taken at once. */
const MOST_TAKEN = 128
/** Fewer are not worth a transaction of their own while others are under way. */
const LEAST_TAKEN = 32
/** How often it looks for those that it has postponed. */
const LOOK_MS = 100
/** Characters in hand, above which no more callbacks are taken. */
const MOST_WEIGHT = 64 * 1024 * 1024

export interface LaneOptions {
  readonly places: number
  /** Callbacks that may wait here for one destination. */
  readonly waitingEach: number
  readonly destinations: Destinations
  readonly clock: Clock
  readonly take: (limit: number) => Promise<readonly DueCallback[]>
  /** Sends it and records what came of it; `sent` is to be called in between. Never rejects. */
  readonly deliver: (due: DueCallback, sent: Sent) => Promise<void>
  readonly postpone: (postponed: readonly PostponedCallback[]) => Promise<void>
  /** Whether it has waited for longer than all its attempts would have taken. */
  readonly isOverdue: (due: DueCallback) => boolean
  /** Records that it has failed for good, without another attempt. */
  readonly end: (due: DueCallback) => Promise<void>
  readonly onTrouble: (error: unknown) => void
}

/** What an attempt said of its receiver, null for nothing, and how long it took. */
export type Sent = (keptUp: boolean | null, ms: number) => void

export class Lane {
  readonly #options: LaneOptions
  readonly #waiting = new Map<Destination, DueCallback[]>()
  readonly #waitingOf = new Counts()
  readonly #unprovenOf = new Counts()
  #underWay = 0
  #weight = 0
  #due = true
  #taking = false
  #stopped = false
  /** When the last of those that were postponed comes back. */
  #comesBackMs = 0
  #isLooking = false
  #cancelLook: () => void = () => {}
  #onIdle: (() => void)[] = []

  constructor(options: LaneOptions) {
    this.#options = options
  }

  get underWay(): number {
    return this.#underWay
  }

  /** Callbacks may have become due. */
  wake(): void {
    this.#due = true
    this.#takeSoon(1)
  }

  /** Takes no more; what waits here goes back into the store. Resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelLook()
    const nowMs = this.#options.clock.nowMs()
    const waiting = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    await this.#postpone(waiting.map((due) => postponed(due, nowMs)))
    if (this.#isIdle) return
    await new Promise<void>((resolve) => this.#onIdle.push(resolve))
  }

  get #isIdle(): boolean {
    return this.#underWay === 0 && !this.#taking
  }

  get #room(): number {
    return this.#weight < MOST_WEIGHT ? this.#options.places - this.#underWay : 0
  }

  #takeSoon(least: number): void {
    if (this.#due && !this.#taking && !this.#stopped && this.#room >= least) void this.#takeAll()
  }

  async #takeAll(): Promise<void> {
    this.#taking = true
    try {
      while (this.#due && this.#room > 0 && !this.#stopped) {
        this.#due = false
        const limit = Math.min(this.#room, MOST_TAKEN)
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
    const nowMs = clock.nowMs()
    const back: PostponedCallback[] = []
    for (const due of taken) {
      const destination = destinations.of(due.account, due.callback.url)
      if (this.#stopped) back.push(postponed(due, nowMs))
      else if (this.#mayGo(destination)) this.#send(due, destination)
      else if (this.#mayWait(destination)) this.#wait(due, destination)
      else if (destination.isFailing && isOverdue(due)) await end(due)
      else back.push(postponed(due, destination.turnMs(nowMs)))
    }
    await this.#postpone(back)
  }

  #mayGo(destination: Destination): boolean {
    if (this.#underWay >= this.#options.places || !this.#options.destinations.hasRoom(destination))
      return false
    if (destination.isProven) return true
    const { places } = this.#options
    const { account } = destination
    return this.#unprovenOf.total < share(places, 2) && this.#unprovenOf.of(account) < share(places, 8)
  }

  /** Where there is a chance that it can go soon. */
  #mayWait(destination: Destination): boolean {
    const { places, waitingEach } = this.#options
    return (
      !destination.isFailing &&
      (this.#waiting.get(destination)?.length ?? 0) < waitingEach &&
      this.#waitingOf.total < share(places, 2) &&
      this.#waitingOf.of(destination.account) < share(places, 4)
    )
  }

  #wait(due: DueCallback, destination: Destination): void {
    const waiting = this.#waiting.get(destination) ?? []
    waiting.push(due)
    this.#waiting.set(destination, waiting)
    this.#waitingOf.add(destination.account, 1)
    this.#weight += weightOf(due)
  }

  #sendWaiting(): void {
    for (const [destination, waiting] of this.#waiting) {
      if (destination.isFailing) {
        this.#giveUpWaiting(destination, waiting)
        continue
      }
      let sent = 0
      for (const due of waiting) {
        if (!this.#mayGo(destination)) break
        sent += 1
        this.#weight -= weightOf(due)
        this.#send(due, destination)
      }
      if (sent === 0) continue
      waiting.splice(0, sent)
      this.#waitingOf.add(destination.account, -sent)
      if (waiting.length === 0) this.#waiting.delete(destination)
    }
  }

  /** The receiver hangs or fails, so there is no telling how long they would wait. */
  #giveUpWaiting(destination: Destination, waiting: readonly DueCallback[]): void {
    this.#waiting.delete(destination)
    this.#waitingOf.add(destination.account, -waiting.length)
    for (const due of waiting) this.#weight -= weightOf(due)
    const nowMs = this.#options.clock.nowMs()
    const back = waiting.map((due) => postponed(due, destination.turnMs(nowMs)))
    this.#postpone(back).catch(this.#options.onTrouble)
  }

  #send(due: DueCallback, destination: Destination): void {
    const { destinations, deliver } = this.#options
    const unproven = destination.isProven ? 0 : 1
    let left = false
    const leave: Sent = (keptUp, ms) => {
      if (left) return
      left = true
      destinations.leave(destination, keptUp, ms)
      this.#unprovenOf.add(destination.account, -unproven)
      this.#sendWaiting()
    }
    destinations.enter(destination)
    this.#unprovenOf.add(destination.account, unproven)
    this.#underWay += 1
    this.#weight += weightOf(due)
    const end = () => {
      leave(null, 0)
      this.#underWay -= 1
      this.#weight -= weightOf(due)
      this.#idleIfSo()
      this.#sendWaiting()
      this.#takeSoon(Math.min(LEAST_TAKEN, this.#options.places))
    }
    void deliver(due, leave).finally(end)
  }

  async #postpone(back: readonly PostponedCallback[]): Promise<void> {
    if (back.length === 0) return
    await this.#options.postpone(back)
    this.#comesBackMs = Math.max(this.#comesBackMs, ...back.map(({ dueAtMs }) => dueAtMs))
    this.#lookAgain()
  }

  /** Once at least, and often for as long as something that was postponed is to come back. */
  #lookAgain(): void {
    const { clock } = this.#options
    if (this.#isLooking || this.#stopped) return
    this.#isLooking = true
    this.#cancelLook = clock.after(LOOK_MS, () => {
      this.#isLooking = false
      this.wake()
      if (clock.nowMs() <= this.#comesBackMs) this.#lookAgain()
    })
  }

  #idleIfSo(): void {
    if (this.#isIdle) for (const resolve of this.#onIdle.splice(0)) resolve()
  }
}

/** How many there are, in all and of each account. */
class Counts {
  total = 0
  readonly #of = new Map<string, number>()

  of(account: string): number {
    return this.#of.get(account) ?? 0
  }

  add(account: string, count: number): void {
    if (count === 0) return
    this.total += count
    const now = this.of(account) + count
    if (now === 0) this.#of.delete(account)
    else this.#of.set(account, now)
  }
}

/** A part of the places, one at least. */
function share(places: number, parts: number): number {
  return Math.max(1, Math.floor(places / parts))
}

function weightOf({ view, callback }: DueCallback): number {
  return (view.contentJson ?? view.errorJson ?? '').length + callback.payloadJson.length
}

function postponed({ view, attempt }: DueCallback, dueAtMs: number): PostponedCallback {
  return { jobId: view.id, attempt, dueAtMs }
}
