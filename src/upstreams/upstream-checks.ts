/**
 * Checks unavailable targets, one check at a time for each, until something responds again. A check is one request for the
 * list of models, at the pace that the target's health sets.
 */
import type { Clock } from '../clock.ts'
import { troubleOf } from './failure-kinds.ts'
import type { Target } from './targets.ts'

export class UpstreamChecks {
  readonly #clock: Clock
  /** Ends the pause before a target's next check; null while it is being checked. */
  readonly #planned = new Map<Target, (() => void) | null>()
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The health of the target has changed. */
  changed(target: Target): void {
    if (target.health.phase === 'unavailable') this.#plan(target)
  }

  /** Stops scheduling checks. */
  close(): void {
    this.#closed = true
    for (const cancel of this.#planned.values()) cancel?.()
    this.#planned.clear()
  }

  #plan(target: Target): void {
    if (this.#closed || this.#planned.has(target)) return
    const cancel = this.#clock.after(target.health.untilCheckMs, () => void this.#check(target))
    this.#planned.set(target, cancel)
  }

  /** Never rejects. */
  async #check(target: Target): Promise<void> {
    const { health, upstream } = target
    this.#planned.set(target, null)
    // Retry-After may have postponed it since.
    if (health.phase === 'unavailable' && health.untilCheckMs === 0) {
      const error = await upstream.server.check()
      if (!this.#closed) health.checked(error && troubleOf(error))
    }
    this.#planned.delete(target)
    this.changed(target)
  }
}
