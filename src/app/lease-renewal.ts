/** Takes the lease of a node and renews it: the work of the heartbeat thread, separate from the thread itself. */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Leases } from '../store/node-store.ts'

/** Renewals per lease duration. */
const RENEWALS = 3
/** Attempts to renew per lease duration: a failed renewal is repeated soon. */
export const RENEWAL_TRIES = 9

export interface LeaseRenewalOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly leases: Pick<Leases, 'renew'>
  readonly node: string
  readonly leaseMs: number
  /** Before the renewal, the lease had expired and another node had rescued the jobs. */
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
