/**
 * Delays writes that nobody waits for much longer because of it, so that several share a transaction. At a few hundred jobs per
 * second, a commit costs more in wake-ups of two threads than in work, and costs the same for one job as for many.
 */

/** Calls `send` once after `ms`. */
export type WriteDelay = (ms: number, send: () => void) => void

/** In real time instead of that of the injected clock, because it depends on the speed of the machine. */
export const realWriteDelay: WriteDelay = (ms, send) => void setTimeout(send, ms)

/** The part of an execution's time by which its settlement may come later. */
const SHARE = 0.01
const MAX_WAIT_MS = 10
/** A timer cannot wait for less. */
const MIN_WAIT_MS = 1
/** With so many, waiting for more saves little. */
const ENOUGH = 16

/** Gathers settlements for a moment: a hundredth of their executions' time, and 10 ms at most. */
export class SettlementGate {
  readonly #delay: WriteDelay | null
  #waiting: (() => void)[] = []
  /** Counts the groups, so that the timer of a group that has gone does nothing. */
  #group = 0
  /** The shortest wait of the group that gathers. */
  #waitMs = Number.POSITIVE_INFINITY

  /** @param delay null: every settlement is sent at once */
  constructor(delay: WriteDelay | null) {
    this.#delay = delay
  }

  /** Resolves when the settlement is to be sent; null: at once. All of a group are sent in one turn of the event loop. */
  pass(executionMs: number): Promise<void> | null {
    const waitMs = Math.min(executionMs * SHARE, MAX_WAIT_MS)
    if (this.#delay === null || waitMs < MIN_WAIT_MS) {
      if (this.#waiting.length > 0) this.#open()
      return null
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#waiting.push(resolve) >= ENOUGH) this.#open()
    else if (waitMs < this.#waitMs) this.#openAfter(waitMs, this.#delay)
    return promise
  }

  #openAfter(waitMs: number, delay: WriteDelay): void {
    const group = this.#group
    this.#waitMs = waitMs
    delay(waitMs, () => {
      if (group === this.#group) this.#open()
    })
  }

  #open(): void {
    this.#group += 1
    this.#waitMs = Number.POSITIVE_INFINITY
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
