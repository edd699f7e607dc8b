/**
 * Decides how many concurrent attempts each receiver of callbacks may get. A receiver is an origin (scheme, host and port)
 * together with an account, so that callbacks of one account to a hanging server do not delay those of another account.
 *
 * The limit adapts by additive increase and multiplicative decrease: a success raises the limit by one, an overload halves the
 * limit. A hanging receiver therefore occupies few slots, and a receiver that has recovered soon gets as many attempts as
 * before.
 */
import type { PostResult } from '../net/post.ts'
import type { ReadonlyCounts } from '../sharing/counts.ts'

const MIN_LIMIT = 2
/** After this many failures in a row, a receiver counts as failing. One failure may be a coincidence. */
const FAILURES_IN_A_ROW = 2
/** Beyond this number, the least recently used receivers without attempts in progress are forgotten. */
const MAX_REMEMBERED = 10_000
/** An overloaded receiver, or a gateway that cannot reach the receiver, responds with these statuses. */
const OVERLOADED_STATUSES: readonly number[] = [408, 429, 502, 503, 504]

export type Health = 'coping' | 'overloaded' | 'unknown'

/**
 * A receiver that responds with 404 or 500 still copes with the load. An attempt that was refused before sending shows nothing.
 */
export function healthOf(result: PostResult): Health {
  if (result.kind === 'refused') return 'unknown'
  return result.kind === 'answered' && !OVERLOADED_STATUSES.includes(result.status) ? 'coping' : 'overloaded'
}

export class Receiver {
  readonly account: string
  readonly origin: string
  readonly #maxLimit: number
  #limit = MIN_LIMIT
  #isKnown = false
  #failuresInARow = 0

  constructor(account: string, origin: string, maxLimit: number) {
    this.account = account
    this.origin = origin
    this.#maxLimit = maxLimit
  }

  get limit(): number {
    return this.#limit
  }

  /** Returns whether the receiver coped with the last attempt. Attempts of unknown health do not count. */
  get isProven(): boolean {
    return this.#isKnown && this.#failuresInARow === 0
  }

  get isFailing(): boolean {
    return this.#failuresInARow >= FAILURES_IN_A_ROW
  }

  learn(health: Health): void {
    if (health === 'unknown') return
    const isCoping = health === 'coping'
    this.#isKnown = true
    this.#failuresInARow = isCoping ? 0 : this.#failuresInARow + 1
    this.#limit = isCoping
      ? Math.min(this.#limit + 1, this.#maxLimit)
      : Math.max(MIN_LIMIT, Math.floor(this.#limit / 2))
  }
}

/** Finds the receiver of a callback, and forgets the least recently used receivers. */
export class Receivers {
  readonly #maxLimit: number
  readonly #inUse: ReadonlyCounts<Receiver>
  readonly #all = new Map<string, Receiver>()

  /** Receivers with attempts in `inUse` are not forgotten. */
  constructor(maxLimit: number, inUse: ReadonlyCounts<Receiver>) {
    this.#maxLimit = maxLimit
    this.#inUse = inUse
  }

  of(account: string, url: string): Receiver {
    const { origin } = new URL(url)
    const key = `${account} ${origin}`
    const receiver = this.#all.get(key) ?? new Receiver(account, origin, this.#maxLimit)
    this.#all.delete(key)
    this.#all.set(key, receiver)
    this.#forgetOne()
    return receiver
  }

  #forgetOne(): void {
    if (this.#all.size <= MAX_REMEMBERED) return
    for (const [key, receiver] of this.#all) {
      if (this.#inUse.of(receiver) > 0) continue
      this.#all.delete(key)
      return
    }
  }
}
