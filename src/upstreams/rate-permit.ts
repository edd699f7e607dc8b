/**
 * The permission of one call, from each rate of its target. Afterwards it corrects the rates by the server's reply. If the
 * server rejects a request with 429 despite the permission, the rate and the request wait as long as the server requires, and
 * the target does not count as failed. After REJECTIONS in a row, a 429 is handled as if the target had no rates.
 */
import type { Clock } from '../clock.ts'
import { failureKind } from './failure-kinds.ts'
import type { ModelRequest, Reply, UpstreamError } from './model-server.ts'
import type { Reservation } from './rate.ts'
import { boundedRetryAfterMs } from './retry-after.ts'
import type { TargetRates } from './target-rates.ts'

/** After this many rejections, the rate no longer counts as the reason. */
const REJECTIONS = 3
/** The wait after the first rejection, if the server names none; it doubles with each further rejection. */
const FIRST_WAIT_MS = 1_000

/** What a call may send. */
export class RatePermit {
  readonly #target: TargetRates
  readonly #reservations: readonly Reservation[]
  readonly #clock: Clock
  readonly #request: ModelRequest
  /** How often the same request was rejected before. */
  readonly #rejections: number
  #verdict: 'rejected' | 'too large' | null = null

  constructor(
    target: TargetRates,
    reservations: readonly Reservation[],
    request: ModelRequest,
    rejections: number,
    clock: Clock,
  ) {
    this.#target = target
    this.#reservations = reservations
    this.#request = request
    this.#rejections = rejections
    this.#clock = clock
  }

  /**
   * What to do with a rejected request: `rejected`: send it again later; `too large`: fail it, because it exceeds a minute's
   * limit.
   */
  get verdict(): 'rejected' | 'too large' | null {
    return this.#verdict
  }

  sent(): void {
    for (const reservation of this.#reservations) reservation.sent(this.#clock.steadyMs())
  }

  /** Returns whether the rate explains the error, so that neither the target nor the job is to blame. */
  answered(reply: Reply): boolean {
    const {
      rates: [rate],
      isAlone,
      sizes,
    } = this.#target
    const tokens = reply.tokens ?? { input: 0, output: 0 }
    const used = tokens.input + tokens.output
    if (used > 0) {
      sizes.learn(this.#request, tokens)
      this.#correct(used)
    }
    if (reply.rate !== undefined) rate.serverSays(reply.rate, isAlone)
    if (reply.kind !== 'error' || reply.aborted) return false
    // A request that was not sent used nothing. A rejected one may count, because many servers count it.
    if (reply.connection !== null && reply.broke !== true) this.#correct(0)
    if (!this.#reservations.every(({ isCounted }) => isCounted)) return false
    if (reply.status !== 429 || failureKind(reply) !== 'overloaded') return false
    if (this.#reservations.some(({ isTooLarge }) => isTooLarge)) this.#verdict = 'too large'
    else if (this.#rejections < REJECTIONS) {
      rate.block(this.#waitMs(reply))
      this.#verdict = 'rejected'
    }
    return this.#verdict !== null
  }

  /** Releases what was reserved but not sent. */
  end(): void {
    for (const reservation of this.#reservations) reservation.end()
  }

  #correct(tokens: number): void {
    for (const reservation of this.#reservations) reservation.usedTokens(tokens)
  }

  #waitMs(error: UpstreamError): number {
    return boundedRetryAfterMs(error) ?? FIRST_WAIT_MS * 2 ** this.#rejections
  }
}
