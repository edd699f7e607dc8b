/**
 * The right of a call to be sent, from each rate of its target. It corrects the rates by what the server answers.
 *
 * If the server rejects a request with 429 nevertheless, the rate waits as long as the server asks for, and the request waits with it:
 * the target has not failed. After REJECTIONS in a row it is handled like any other 429.
 */
import type { Clock } from '../clock.ts'
import { failureKind } from './failure-kinds.ts'
import type { ModelRequest, Reply, UpstreamError } from './model-server.ts'
import type { Reservation } from './rate.ts'
import { boundedRetryAfterMs } from './retry-after.ts'
import type { TargetRates } from './target-rates.ts'

/** How often a server may reject a request before its rate is no longer believed to be the reason. */
const REJECTIONS = 3
/** The wait after the first rejection if the server asks for none; twice as long after each further one. */
const FIRST_WAIT_MS = 1_000

/** What a call may send. */
export class CallPermit {
  readonly #target: TargetRates
  readonly #reservations: readonly Reservation[]
  readonly #clock: Clock
  readonly #request: ModelRequest
  /** How often the request was rejected before. */
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

  /** What the rate has found about a request that was rejected: whether it should wait, or is larger than a minute. */
  get verdict(): 'rejected' | 'too large' | null {
    return this.#verdict
  }

  sent(): void {
    for (const reservation of this.#reservations) reservation.sent(this.#clock.steadyMs())
  }

  /** Returns whether the rate is the reason for an error, so that neither the target nor the job is to blame. */
  answered(reply: Reply): boolean {
    const {
      rates: [rate],
      isAlone,
      answers,
    } = this.#target
    const { input, output } = reply.tokens ?? { input: 0, output: 0 }
    const used = input + output
    if (used > 0) {
      answers.learn(used - this.#request.inputTokens)
      this.#correct(used)
    }
    if (reply.rate !== undefined) rate.serverSays(reply.rate, isAlone)
    if (reply.kind !== 'error' || reply.aborted) return false
    // Nothing was sent. Many servers count rejected requests, too.
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

  /** What was not sent is free for others. */
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
