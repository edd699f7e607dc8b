/**
 * Where callbacks go, and how many may be under way there. A destination is one account's part of an origin (scheme, host
 * and port), so that what one account sends to a receiver that hangs does not hold up another's.
 *
 * How many is found out: each attempt that a receiver keeps up with allows one more, each that it does not halves it. So a
 * receiver that hangs holds few places, one that is overloaded is asked less, and one that is back is soon asked as before.
 */

/** What may be under way to a destination of which nothing is known, and always. */
const LEAST = 2
/** So many failures in a row are no accident. */
const FAILING = 2
/** Destinations that are remembered though nothing is under way to them. */
const REMEMBERED = 10_000

export class Receivers {
  readonly #perOrigin: number
  /** The one used longest ago comes first. */
  readonly #all = new Map<string, Receiver>()
  /** Attempts under way by origin, without those that have none. */
  readonly #underWay = new Map<string, number>()

  constructor(perOrigin: number) {
    this.#perOrigin = perOrigin
  }

  of(account: string, url: string): Receiver {
    const { origin } = new URL(url)
    const name = `${account} ${origin}`
    const destination = this.#all.get(name) ?? new Receiver(account, origin, this.#perOrigin)
    this.#all.delete(name)
    this.#all.set(name, destination)
    this.#forgetOne()
    return destination
  }

  hasRoom(destination: Receiver): boolean {
    const inOrigin = this.#underWay.get(destination.origin) ?? 0
    return destination.room > 0 && inOrigin < this.#perOrigin
  }

  enter(destination: Receiver): void {
    destination.underWay += 1
    this.#underWay.set(destination.origin, (this.#underWay.get(destination.origin) ?? 0) + 1)
  }

  /** @param keptUp null where the attempt said nothing of the receiver */
  leave(destination: Receiver, keptUp: boolean | null): void {
    destination.underWay -= 1
    if (keptUp !== null) destination.learn(keptUp)
    const left = (this.#underWay.get(destination.origin) ?? 0) - 1
    if (left > 0) this.#underWay.set(destination.origin, left)
    else this.#underWay.delete(destination.origin)
  }

  /** One at a time is enough: no more than one was added. */
  #forgetOne(): void {
    if (this.#all.size <= REMEMBERED) return
    for (const [name, destination] of this.#all) {
      if (destination.underWay > 0) continue
      this.#all.delete(name)
      return
    }
  }
}

export class Receiver {
  readonly account: string
  readonly origin: string
  underWay = 0
  readonly #most: number
  #limit = LEAST
  #isKnown = false
  /** In a row, up to now. */
  #failures = 0

  constructor(account: string, origin: string, most: number) {
    this.account = account
    this.origin = origin
    this.#most = most
  }

  /** How many more may go there, as far as this account is concerned. */
  get room(): number {
    return this.#limit - this.underWay
  }

  /** Whether it is known to answer. */
  get isProven(): boolean {
    return this.#isKnown && this.#failures === 0
  }

  get isFailing(): boolean {
    return this.#failures >= FAILING
  }

  learn(keptUp: boolean): void {
    this.#isKnown = true
    this.#failures = keptUp ? 0 : this.#failures + 1
    this.#limit = keptUp
      ? Math.min(this.#limit + 1, this.#most)
      : Math.max(LEAST, Math.floor(this.#limit / 2))
  }
}
