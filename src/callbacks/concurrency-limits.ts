/**
 * The places of a lane, and who may have them. Of the places
 *
 * - destinations that are not known to answer may have half together, those of one account an eighth;
 * - the last eighth is for accounts that have less than an eighth.
 *
 * So however many receivers hang or are slow, and whoever made them so, there are places for those that answer.
 */
import type { Receiver, Receivers } from './receivers.ts'

/** Callbacks that may wait for a destination that is not known to answer: it may keep them waiting for long. */
const WAITING_UNPROVEN = 2

export class ConcurrencyLimits {
  readonly all: number
  underWay = 0
  readonly #waitingEach: number
  readonly #destinations: Receivers
  readonly #of = new Counts()
  readonly #unprovenOf = new Counts()
  readonly #waitingOf = new Counts()
  readonly #waitingFor = new Map<Receiver, number>()

  constructor(all: number, waitingEach: number, destinations: Receivers) {
    this.all = all
    this.#waitingEach = waitingEach
    this.#destinations = destinations
  }

  get free(): number {
    return this.all - this.underWay
  }

  /** Free places that any account may have; none while so many wait for places of theirs that more would wait too. */
  get common(): number {
    return this.#waitingOf.total < this.#share(8) ? this.mostCommon - this.underWay : 0
  }

  get mostCommon(): number {
    return Math.max(1, this.all - this.#share(8))
  }

  mayGo(destination: Receiver): boolean {
    const { account } = destination
    if (this.free === 0 || !this.#destinations.hasRoom(destination)) return false
    if (this.underWay >= this.mostCommon && !this.mayHaveLast(account)) return false
    if (destination.isProven) return true
    return this.#unprovenOf.total < this.#share(2) && this.#unprovenOf.of(account) < this.#share(8)
  }

  /** Whether the account has so few places that the last ones are for it. */
  mayHaveLast(account: string): boolean {
    return this.#of.of(account) < this.#share(8)
  }

  /** Where there is a chance that it can go soon. */
  mayWait(destination: Receiver): boolean {
    return (
      !destination.isFailing &&
      (this.#waitingFor.get(destination) ?? 0) <
        (destination.isProven ? this.#waitingEach : WAITING_UNPROVEN) &&
      this.#waitingOf.total < this.#share(2) &&
      this.#waitingOf.of(destination.account) < this.#share(4)
    )
  }

  /** How many may go or wait there, if one may go now. */
  roomFor(destination: Receiver): number {
    return destination.isFailing ? destination.room : this.#waitingEach
  }

  /** So many more, or fewer, wait for the destination. */
  wait(destination: Receiver, count: number): void {
    this.#waitingOf.add(destination.account, count)
    const waiting = (this.#waitingFor.get(destination) ?? 0) + count
    if (waiting === 0) this.#waitingFor.delete(destination)
    else this.#waitingFor.set(destination, waiting)
  }

  /** The destination is left before the place: the record of the attempt comes between. Each is left once. */
  enter(destination: Receiver): { destination(keptUp: boolean | null): void; place(): void } {
    const { account } = destination
    const unproven = destination.isProven ? 0 : 1
    let isThere = true
    this.#destinations.enter(destination)
    this.#unprovenOf.add(account, unproven)
    this.#of.add(account, 1)
    this.underWay += 1
    const leave = (keptUp: boolean | null) => {
      if (!isThere) return
      isThere = false
      this.#destinations.leave(destination, keptUp)
      this.#unprovenOf.add(account, -unproven)
    }
    return {
      destination: leave,
      place: () => {
        leave(null)
        this.#of.add(account, -1)
        this.underWay -= 1
      },
    }
  }

  /** A part of the places, one at least. */
  #share(parts: number): number {
    return Math.max(1, Math.floor(this.all / parts))
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
