/** The limits of the key's tier, loaded when they are first needed and then remembered. */
import type { CallOptions, Exchange } from './exchange.ts'
import type { Me } from './job.ts'

export type Limits = Me['limits']

export class KnownLimits {
  readonly #exchange: Exchange
  #known: Limits | null = null

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  async ofTier(options: CallOptions): Promise<Limits> {
    return this.#known ?? (await this.me(options)).limits
  }

  /** Loads the current limits and remembers them. */
  async me(options: CallOptions): Promise<Me> {
    const me = await this.#exchange.data<Me>({ ...options, method: 'GET', path: '/api/v1/me' })
    this.#known = me.limits
    return me
  }
}
