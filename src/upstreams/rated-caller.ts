/**
 * Calls targets that have rate limits: estimates the tokens of a request and waits until each rate permits it. A waiting
 * request holds no slot of its upstream, and the time limit of its run is paused. The server's replies correct the rates
 * (target-rates.ts).
 */
import type { Clock } from '../clock.ts'
import type { Called, RoutingAttempt, TargetCaller } from './call-target.ts'
import type { ModelRequest, Reply } from './model-server.ts'
import type { Reservation } from './rate.ts'
import type { Target } from './routing-table.ts'
import { RatePermit, type TargetRates } from './target-rates.ts'

export class RatedCaller {
  readonly #caller: TargetCaller
  readonly #clock: Clock
  readonly #weightOf: (tier: string) => number

  constructor(caller: TargetCaller, clock: Clock, weightOf: (tier: string) => number) {
    this.#caller = caller
    this.#clock = clock
    this.#weightOf = weightOf
  }

  /** Calls like `TargetCaller.call`. Resolves with `leaving` if the request would have to wait while the node stops. */
  call(target: Target, rates: TargetRates, attempt: RoutingAttempt): Promise<Called | 'leaving'> {
    // A reservation before the job's turn could keep the rate from other jobs for a long time.
    return this.#caller.inTurn(target, attempt, () => this.#callWithin(target, rates, attempt))
  }

  async #callWithin(
    target: Target,
    rates: TargetRates,
    attempt: RoutingAttempt,
  ): Promise<Called | 'leaving'> {
    for (let rejections = 0; ; rejections++) {
      if (this.#caller.isSkipped(target, attempt)) return 'circuit open'
      const reservations = await this.#reserve(rates, attempt)
      if (reservations === null) return attempt.signal.reason === null ? 'leaving' : 'stopped'
      const permit = new RatePermit(rates, reservations, attempt.request, rejections, this.#clock)
      attempt.permit = permit
      let called: Called
      try {
        called = await this.#caller.callNow(target, attempt)
      } finally {
        attempt.permit = null
        permit.end()
      }
      if (permit.verdict === 'too large') {
        attempt.reply = tooLarge(attempt.reply, reservations)
        return called
      }
      if (permit.verdict === null || called !== 'called') return called
    }
  }

  /** Reserves the request in each rate. Resolves with null if the request or the node was stopped meanwhile. */
  async #reserve({ rates, sizes }: TargetRates, attempt: RoutingAttempt): Promise<Reservation[] | null> {
    const { request, signal, waiting } = attempt
    const { account, tier, priority, jobId } = request
    const tokens = sizes.inputOf(request) + (maxTokensOf(request) ?? sizes.more)
    const asked = { account, weight: this.#weightOf(tier), priority, tokens }
    const reservations: Reservation[] = []
    for (const rate of rates) {
      const reserved = rate.reserve(asked, signal)
      let reservation: Reservation | null
      if (reserved instanceof Promise) {
        signal.pause()
        waiting.add(jobId)
        reservation = await reserved
        waiting.delete(jobId)
        signal.resume()
        this.#caller.onRoom()
      } else reservation = reserved
      if (reservation === null) {
        for (const earlier of reservations) earlier.end()
        return null
      }
      reservations.push(reservation)
    }
    return reservations
  }
}

function maxTokensOf({ prompt: { optionsJson } }: ModelRequest): number | undefined {
  const { max_tokens }: { max_tokens?: number } = optionsJson === undefined ? {} : JSON.parse(optionsJson)
  return max_tokens
}

/** The request was sent when nothing else was, so another wait would not help. */
function tooLarge(reply: Reply, reservations: readonly Reservation[]): Reply {
  if (reply.kind !== 'error') return reply
  const [{ tokens, rate } = { tokens: 0, rate: null }] = reservations.filter(({ isTooLarge }) => isTooLarge)
  const message = `The job needs about ${tokens} tokens, and the rate of the model server is ${rate?.limits.tokens} tokens per minute. It was sent alone, and the server rejected it: ${reply.message}`
  return { ...reply, retryable: false, message }
}
