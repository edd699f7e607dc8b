/** The callers that a request thread knows: for as long as what the main thread said about their keys may be relied on. */
import type { Tier, Tiers } from '../job/tier.ts'
import type { MainCalls } from './main-calls.ts'

/** What plain requests need to know about whose key they carry. */
export interface KnownCaller {
  readonly account: string
  readonly keyId: string
  readonly tier: Tier
  readonly suspended: boolean
}

interface Known {
  readonly caller: KnownCaller
  readonly freshUntilMs: number
}

export interface KnownCallersOptions {
  readonly calls: Pick<MainCalls, 'authenticate'>
  readonly tiers: Tiers
  readonly steadyMs: () => number
  /** Beyond that the one that was asked about longest ago is forgotten. */
  readonly maxKeys: number
}

export class KnownCallers {
  readonly #options: KnownCallersOptions
  readonly #known = new Map<string, Known>()
  readonly #asked = new Map<string, Promise<KnownCaller | null>>()

  constructor(options: KnownCallersOptions) {
    this.#options = options
  }

  /** The caller where it is known, else a promise; null for a key that may not be valid. */
  get(key: string): KnownCaller | Promise<KnownCaller | null> {
    const known = this.#known.get(key)
    if (known && known.freshUntilMs > this.#options.steadyMs()) return known.caller
    const asked = this.#asked.get(key) ?? this.#ask(key)
    this.#asked.set(key, asked)
    return asked
  }

  async #ask(key: string): Promise<KnownCaller | null> {
    const { calls, tiers, steadyMs, maxKeys } = this.#options
    const askedMs = steadyMs()
    const answer = await calls.authenticate(key)
    this.#asked.delete(key)
    if (answer[0] !== 'caller') return null
    const [, , keyId, account, tier, suspended, freshMs] = answer
    const caller = { account, keyId, tier: tiers.of(tier), suspended }
    // Counted from the question, so that a change made before the answer is seen in time.
    this.#known.delete(key)
    const [oldest] = this.#known.keys()
    if (this.#known.size >= maxKeys && oldest !== undefined) this.#known.delete(oldest)
    this.#known.set(key, { caller, freshUntilMs: askedMs + freshMs })
    return caller
  }
}
