/** Checks the admin token of each request, in constant time, and limits how many wrong tokens an address may send. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../clock.ts'
import { AddressLimit } from '../address-limit.ts'
import { type HttpError, tokenRequired, tooManyWrongTokens } from '../errors.ts'

/** Wrong tokens that an address may send in a minute. */
const MAX_FAILURES = 10

export class AdminAuthentication {
  /** The token's digest, so that tokens of every length compare in the same time; null rejects every request. */
  readonly #digest: Buffer | null
  readonly #failures: AddressLimit

  constructor(token: string | null, clock: Clock) {
    this.#digest = token === null ? null : digestOf(token)
    this.#failures = new AddressLimit(clock, MAX_FAILURES)
  }

  /** Returns null if the request is allowed. */
  errorFor(authorization: string | undefined, address: string): HttpError | null {
    const waitMs = this.#failures.waitMs(address)
    if (waitMs > 0) return tooManyWrongTokens(Math.ceil(waitMs / 1000))
    const [, given] = /^bearer ([^ ]+)$/i.exec(authorization ?? '') ?? []
    if (given !== undefined && this.#digest && timingSafeEqual(digestOf(given), this.#digest)) return null
    // A request without a token is not a guess: a browser that opens the page sends none.
    if (given !== undefined) this.#failures.count(address)
    return tokenRequired()
  }
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
