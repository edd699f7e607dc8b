/**
 * Finds the rates that the settings give to targets: those of an upstream, which all of its targets share, and those of a model
 * on it. Also controls what one call may send under these rates, and decides whether a 429 counts against the target.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import { failureKind } from './failure-kinds.ts'
import type { ModelRequest, Reply, TokenCount, UpstreamError } from './model-server.ts'
import type { Rate, Reservation } from './rate.ts'
import { NO_TOKENS } from './read-completion.ts'
import { boundedRetryAfterMs } from './retry-after.ts'

/** These estimates apply before the first answer. English has more than three bytes per token, and few languages have fewer. */
const USUAL_OUTPUT_TOKENS = 1024
const USUAL_TOKENS_PER_BYTE = 1 / 3
const LATEST = 0.1
/** Estimates are this many average deviations above the average, so that few of them are too low. */
const DEVIATIONS = 2

export interface TargetRates {
  /** The target's own rate, if it has one, comes before that of its upstream. */
  readonly rates: readonly [Rate, ...Rate[]]
  /** This is true if the limits that the server reports concern the first rate, because no other target uses it. */
  readonly isAlone: boolean
  readonly sizes: RequestSizes
}

/** Learns how many tokens requests use: per byte of input, and for the answer and the chat template. */
class RequestSizes {
  readonly #perByte = new Estimate(USUAL_TOKENS_PER_BYTE)
  readonly #more = new Estimate(USUAL_OUTPUT_TOKENS)

  /** Estimates the tokens of the input. The job's own count is an upper bound, and for most jobs four times too high. */
  inputOf({ inputTokens, prompt }: ModelRequest): number {
    return Math.min(inputTokens, Math.ceil(Buffer.byteLength(prompt.messagesJson) * this.#perByte.high))
  }

  get more(): number {
    return Math.ceil(this.#more.high)
  }

  learn(request: ModelRequest, { input, output }: TokenCount): void {
    if (input > 0) this.#perByte.add(input / Buffer.byteLength(request.prompt.messagesJson))
    this.#more.add(Math.max(0, input + output - this.inputOf(request)))
  }
}

class Estimate {
  #average: number | null = null
  #deviation = 0
  readonly #usual: number

  constructor(usual: number) {
    this.#usual = usual
  }

  get high(): number {
    return this.#average === null ? this.#usual : this.#average + DEVIATIONS * this.#deviation
  }

  add(value: number): void {
    const average = this.#average ?? value
    this.#deviation += (Math.abs(value - average) - this.#deviation) * LATEST
    this.#average = average + (value - average) * LATEST
  }
}

export interface RateLimits {
  readonly requests_per_minute?: number | null | undefined
  readonly tokens_per_minute?: number | null | undefined
}

/** If several public models set limits for the same target, the lowest ones apply. */
export function targetRates(
  upstreams: ReadonlyMap<string, { readonly rate?: RateLimits }>,
  models: { readonly [name: string]: ModelSettings },
  create: (name: string, limits: { readonly requests: number; readonly tokens: number }) => Rate,
): (upstream: string, model: string) => TargetRates | null {
  const known = new Map<string, Rate | null>()
  const rateOf = (name: string, limits: readonly RateLimits[]): Rate | null => {
    const found = known.get(name)
    if (found !== undefined) return found
    const lowest = (setting: keyof RateLimits) =>
      Math.min(...limits.map((one) => one[setting] ?? Number.POSITIVE_INFINITY))
    const all = { requests: lowest('requests_per_minute'), tokens: lowest('tokens_per_minute') }
    const rate = Number.isFinite(all.requests) || Number.isFinite(all.tokens) ? create(name, all) : null
    known.set(name, rate)
    return rate
  }
  const entries = Object.values(models).flatMap(({ targets = [] }) => targets)
  return (upstream, model) => {
    const ofUpstream = entries.filter((entry) => entry.upstream === upstream)
    const own = rateOf(
      `${upstream}/${model}`,
      ofUpstream.filter((entry) => entry.model === model),
    )
    const shared = rateOf(upstream, [upstreams.get(upstream)?.rate ?? {}])
    const [first, ...others] = [own, shared].filter((rate) => rate !== null)
    if (first === undefined) return null
    const isAlone = own !== null || new Set(ofUpstream.map((entry) => entry.model)).size === 1
    return { rates: [first, ...others], isAlone, sizes: new RequestSizes() }
  }
}

/** After this many rejections in a row, a 429 is handled as if the target had no rates. */
const REJECTIONS = 3
/** This is the wait after the first rejection, if the server names none. It doubles with each further rejection. */
const FIRST_WAIT_MS = 1_000

/**
 * The permission for one call. Afterwards it corrects the rates by the server's reply. If the server rejects a request with 429
 * despite the permission, the rate and the request wait as long as the server requires, and the target does not count as
 * failed.
 */
export class RatePermit {
  readonly #target: TargetRates
  readonly #reservations: readonly Reservation[]
  readonly #clock: Clock
  readonly #request: ModelRequest
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

  /** `rejected`: send the request again later. `too large`: fail the request, because it exceeds a minute's limit. */
  get verdict(): 'rejected' | 'too large' | null {
    return this.#verdict
  }

  sent(): void {
    for (const reservation of this.#reservations) reservation.sent(this.#clock.steadyMs())
  }

  /** Returns whether the rate explains the error, so that the target is not to blame. */
  answered(reply: Reply): boolean {
    const {
      rates: [rate],
      isAlone,
      sizes,
    } = this.#target
    const tokens = reply.tokens ?? NO_TOKENS
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
