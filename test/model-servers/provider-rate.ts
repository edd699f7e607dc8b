/** Enforces the limits of a provider: requests and tokens of a sliding or a fixed minute, or of a bucket that refills. */
export type Enforced = 'sliding' | 'fixed' | 'bucket'

export interface ProviderLimits {
  readonly requests: number
  readonly tokens: number
}

const MINUTE_MS = 60_000

export class ProviderRate {
  readonly limits: ProviderLimits
  readonly #kind: Enforced
  readonly #offsetMs: number
  readonly #taken: { atMs: number; requests: number; tokens: number }[] = []
  #bucket: { atMs: number; requests: number; tokens: number }
  readonly rejectedAtMs: number[] = []
  readonly accepted = { requests: 0, tokens: 0 }

  constructor(kind: Enforced, limits: ProviderLimits, offsetMs = 0) {
    this.#kind = kind
    this.limits = limits
    this.#offsetMs = offsetMs
    this.#bucket = { atMs: 0, ...limits }
  }

  take(tokens: number, nowMs: number): boolean {
    const left = this.left(nowMs)
    if (left.requests < 1 || left.tokens < tokens) {
      this.rejectedAtMs.push(nowMs)
      return false
    }
    this.#taken.push({ atMs: nowMs, requests: 1, tokens })
    this.#bucket = { atMs: nowMs, requests: left.requests - 1, tokens: left.tokens - tokens }
    this.accepted.requests += 1
    this.accepted.tokens += tokens
    return true
  }

  left(nowMs: number): ProviderLimits {
    const { requests, tokens } = this.limits
    if (this.#kind === 'bucket') {
      const part = (nowMs - this.#bucket.atMs) / MINUTE_MS
      return {
        requests: Math.min(requests, this.#bucket.requests + part * requests),
        tokens: Math.min(tokens, this.#bucket.tokens + part * tokens),
      }
    }
    const minute = (ms: number) => Math.floor((ms - this.#offsetMs) / MINUTE_MS)
    const isCounted = ({ atMs }: { readonly atMs: number }) =>
      this.#kind === 'sliding' ? atMs > nowMs - MINUTE_MS : minute(atMs) === minute(nowMs)
    const left = { requests, tokens }
    for (let index = this.#taken.length - 1; index >= 0; index--) {
      const taken = this.#taken[index]
      if (taken === undefined || !isCounted(taken)) break
      left.requests -= taken.requests
      left.tokens -= taken.tokens
    }
    return left
  }
}
