/** Lets in who has the admin token: compared in constant time, and no address may guess for long. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../clock.ts'
import { type HttpError, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { TokenGuesses } from './token-guesses.ts'

export class AdminGuard {
  /** Of the token, so that texts of every length compare alike; null lets nobody in. */
  readonly #digest: Buffer | null
  readonly #wrong: TokenGuesses

  constructor(token: string | null, clock: Clock) {
    this.#digest = token === null ? null : digestOf(token)
    this.#wrong = new TokenGuesses(clock)
  }

  /** Null lets the request in. */
  refusal(authorization: string | undefined, address: string): HttpError | null {
    const waitMs = this.#wrong.waitMs(address)
    if (waitMs > 0) return tooManyWrongTokens(Math.ceil(waitMs / 1000))
    const [, given] = /^bearer ([^ ]+)$/i.exec(authorization ?? '') ?? []
    if (given !== undefined && this.#digest && timingSafeEqual(digestOf(given), this.#digest)) return null
    // A page that was opened without a token guesses nothing.
    if (given !== undefined) this.#wrong.count(address)
    return tokenRequired()
  }
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
