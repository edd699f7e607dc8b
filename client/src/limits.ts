/** What the key's tier allows: asked for when it is first needed, and remembered. */
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

  /** Asks, and remembers what may have changed. */
  async me(options: CallOptions): Promise<Me> {
    const me = await this.#exchange.data<Me>({ ...options, method: 'GET', path: '/api/v1/me' })
    this.#known = me.limits
    return me
  }
}
