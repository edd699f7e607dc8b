/** Loads the limits of the key's tier when they are first needed, and caches them. `me` always loads them again. */
import type { WithResponse } from './api-promise.ts'
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
    return this.#known ?? (await this.me(options)).data.limits
  }

  async me(options: CallOptions): Promise<WithResponse<Me>> {
    const me = await this.#exchange.send<Me>({ ...options, method: 'GET', path: '/api/v1/me' })
    this.#known = me.data.limits
    return me
  }
}
