/** A gate: at most so many are inside at once, the others wait in the order they came. */

interface Waiter {
  readonly letIn: (entered: boolean) => void
  readonly signal: AbortSignal
  readonly giveUp: () => void
}

export class Gate {
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
   * aborted first. Whoever got true calls `leave` exactly once.
   */
  enter(signal: AbortSignal): boolean | Promise<boolean> {
    if (signal.aborted) return false
    if (this.#inside < this.limit) {
      this.#inside++
      return true
    }
    return new Promise((letIn) => {
      const waiter: Waiter = {
        letIn,
        signal,
        giveUp: () => {
          this.#queue.delete(waiter)
          letIn(false)
        },
      }
      signal.addEventListener('abort', waiter.giveUp, { once: true })
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
    next.signal.removeEventListener('abort', next.giveUp)
    next.letIn(true)
  }
}
