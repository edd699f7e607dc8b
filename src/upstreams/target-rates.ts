/** The rates that the settings give to targets: of an upstream, shared by all of its targets, and of a model on it. */
import type { ModelSettings } from '../config/settings.ts'
import type { Rate } from './rate.ts'

/** The estimated tokens of an answer before any is known. */
const USUAL_OUTPUT_TOKENS = 1024
/** The weight of the latest answer in the average. */
const LATEST = 0.1
/** Estimates are this many average deviations above the average, so that few are too low. */
const DEVIATIONS = 2

/** The rates of a target, and what its answers have used. */
export interface TargetRates {
  /** The target's own rate comes first, then that of its upstream. */
  readonly rates: readonly [Rate, ...Rate[]]
  /** Whether the limits that the server reports concern the first rate, because only this target uses it. */
  readonly isAlone: boolean
  readonly answers: AnswerSizes
}

/** Learns how many tokens a request uses in addition to its counted input: its answer, and what its chat template adds. */
class AnswerSizes {
  #average: number | null = null
  #deviation = 0

  get estimate(): number {
    return Math.ceil(
      this.#average === null ? USUAL_OUTPUT_TOKENS : this.#average + DEVIATIONS * this.#deviation,
    )
  }

  learn(tokens: number): void {
    const average = this.#average ?? tokens
    this.#deviation += (Math.abs(tokens - average) - this.#deviation) * LATEST
    this.#average = average + (tokens - average) * LATEST
  }
}

/** Null for no limit. */
export interface RateLimits {
  readonly requests_per_minute?: number | null | undefined
  readonly tokens_per_minute?: number | null | undefined
}

/**
 * Returns a function that finds the rates of a target; it returns null if the target has none. If several public models set limits
 * for the same target, the lowest apply.
 */
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
    return { rates: [first, ...others], isAlone, answers: new AnswerSizes() }
  }
}
