/**
 * The work of the heartbeat thread, separate from the thread itself: it takes and renews the lease of a node, and detects when
 * the main thread's event loop hangs.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Leases } from '../store/node-store.ts'

/** Renewals per lease duration. */
const RENEWALS = 3
/** Attempts to renew per lease duration. There are more than renewals, because a failed one is repeated soon. */
export const RENEWAL_TRIES = 9

export interface LeaseRenewalOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly leases: Pick<Leases, 'renew'>
  readonly node: string
  readonly leaseMs: number
  /** Called when, before the renewal, the lease had expired and another node had rescued the jobs. */
  readonly onExpired: () => void
  /** Called when a renewal failed; it is retried. */
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
      // `about` is left out, because it would shift renewals: the age of a lease when an outage begins depends on their times.
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

/** The loop reports, and the watch checks, at this interval. */
export const REPORT_EVERY_MS = 1000

/**
 * Detects, on another thread, that an event loop has stopped reporting. Only time during which that thread ran counts, because a
 * stopped process or a sleeping machine stops both.
 */
export class LoopWatch {
  readonly #hangMs: number
  #reports = 0
  #lookedMs: number
  #silentMs = 0

  constructor(hangMs: number, steadyMs: number) {
    this.#hangMs = hangMs
    this.#lookedMs = steadyMs
  }

  /** Returns whether the loop hangs. @param reports how often it has reported so far */
  hangs(reports: number, steadyMs: number): boolean {
    const passedMs = Math.min(steadyMs - this.#lookedMs, 2 * REPORT_EVERY_MS)
    this.#lookedMs = steadyMs
    this.#silentMs = reports === this.#reports ? this.#silentMs + passedMs : 0
    this.#reports = reports
    return this.#silentMs >= this.#hangMs
  }
}
