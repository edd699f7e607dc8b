/** Takes the lease of a node and renews it: what the heartbeat thread does, apart from the thread. */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Leases } from '../store/node-store.ts'

/** Renewals in the time of a lease. */
const RENEWALS = 3
/** Tries to renew in the time of a lease: a renewal that failed is repeated soon. */
export const RENEWAL_TRIES = 9

export interface LeaseRenewalOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly leases: Pick<Leases, 'renew'>
  readonly node: string
  readonly leaseMs: number
  /** The lease had expired, and another node rescued its jobs, before it was renewed. */
  readonly onExpired: () => void
  /** A renewal failed, and is retried. */
  readonly onError: (error: unknown) => void
}

export class LeaseRenewal {
  readonly #options: LeaseRenewalOptions
  readonly #loop: PollingLoop
  #renewedMs = 0

  constructor(options: LeaseRenewalOptions) {
    const { clock, leaseMs, onError } = options
    this.#options = options
    this.#loop = new PollingLoop({
      // Not about these moments: how old a lease may be when an outage begins depends on them.
      clock: { after: (ms, callback) => clock.after(ms, callback) },
      pauseMs: leaseMs / RENEWAL_TRIES,
      task: () => this.#renewIfDue(),
      onError,
    })
  }

  /** Takes the lease. Rejects if it cannot. */
  async start(): Promise<void> {
    const { clock, leases, node, leaseMs } = this.#options
    this.#renewedMs = clock.steadyMs()
    await leases.renew(node, leaseMs)
    this.#loop.start()
  }

  /** Resolves when no renewal is in progress. The lease stays until it expires. */
  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #renewIfDue(): Promise<void> {
    const { clock, leases, node, leaseMs, onExpired } = this.#options
    const askedMs = clock.steadyMs()
    if (askedMs - this.#renewedMs < leaseMs / RENEWALS) return
    const isKept = await leases.renew(node, leaseMs)
    this.#renewedMs = askedMs
    if (!isKept) onExpired()
  }
}
