/**
 * The work of the heartbeat thread, in a file of its own for tests: takes and renews the lease of a node, and detects when the
 * event loop of the main thread hangs.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Leases } from '../store/node-store.ts'

/** How often the lease is renewed in the time after which it expires. */
const RENEWALS = 3
/** How often a due renewal is tried in that time, if it fails. */
export const RENEWAL_TRIES = 9

export interface LeaseRenewalOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly leases: Pick<Leases, 'renew'>
  readonly node: string
  readonly leaseMs: number
  /** Called when, before a renewal, the lease had expired and another node had rescued the jobs. */
  readonly onExpired: () => void
  /** Called when a renewal failed. It is retried. */
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
      // Renewals happen at exact times, without the random shift of `about`, because the age of a lease at the beginning of an
      // outage depends on them.
      clock: { after: (ms, callback) => clock.after(ms, callback) },
      pauseMs: leaseMs / RENEWAL_TRIES,
      task: () => this.#renewIfDue(),
      onError,
    })
  }

  /** Takes the lease. Rejects if that is impossible. */
  async start(): Promise<void> {
    const { clock, leases, node, leaseMs } = this.#options
    this.#renewedMs = clock.steadyMs()
    await leases.renew(node, leaseMs)
    this.#loop.start()
  }

  /** Resolves when no renewal is in progress. The lease then expires by itself. */
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

/** How often the loop reports and the watch checks, in milliseconds. */
export const REPORT_EVERY_MS = 1000

/**
 * Detects, on another thread, that an event loop has stopped reporting. Only time in which that thread ran counts, because both
 * stand still while the process is stopped or the machine sleeps.
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

  /**
   * Returns whether the loop hangs.
   * @param reports how often the loop has reported so far
   */
  hangs(reports: number, steadyMs: number): boolean {
    const passedMs = Math.min(steadyMs - this.#lookedMs, 2 * REPORT_EVERY_MS)
    this.#lookedMs = steadyMs
    this.#silentMs = reports === this.#reports ? this.#silentMs + passedMs : 0
    this.#reports = reports
    return this.#silentMs >= this.#hangMs
  }
}
