/** A gate: at most so many are inside at once, the others wait in the order they came. */
import type { StopListener, StopSignal } from '../job/stop.ts'

interface Waiter extends StopListener {
  readonly letIn: (entered: boolean) => void
  readonly signal: StopSignal
}

export class Semaphore {
  readonly limit: number
  #inside = 0
  /** A set keeps the order of arrival and lets a waiter from the middle go at no cost. */
  readonly #queue = new Set<Waiter>()

  constructor(limit: number) {
    this.limit = limit
  }

  get inside(): number {
    return this.#inside
  }

  get waiting(): number {
    return this.#queue.size
  }

  /**
   * `true`, without a promise, where there is room; else a promise that is true once inside and false when the signal
   * stopped it first. Whoever got true calls `leave` exactly once.
   */
  enter(signal: StopSignal): boolean | Promise<boolean> {
    if (signal.reason !== null) return false
    if (this.#inside < this.limit) {
      this.#inside++
      return true
    }
    return new Promise((letIn) => {
      const waiter: Waiter = {
        letIn,
        signal,
        onStop: () => {
          this.#queue.delete(waiter)
          letIn(false)
        },
      }
      signal.listen(waiter)
      this.#queue.add(waiter)
    })
  }

  /** Gives the place to whoever waits longest; the one let in goes on in a later microtask, never inside this call. */
  leave(): void {
    const next = this.#queue.values().next().value
    if (next === undefined) {
      this.#inside--
      return
    }
    this.#queue.delete(next)
    next.signal.unlisten(next)
    next.letIn(true)
  }
}
