/** A semaphore: limits how many holders have a slot at once; the others wait in the order in which they came. */
import type { StopListener, StopSignal } from '../job/stop.ts'

interface QueuedCall extends StopListener {
  readonly signal: StopSignal
  readonly resolve: (acquired: boolean) => void
}

export class Semaphore {
  readonly limit: number
  #held = 0
  /** A set keeps the order of arrival and removes a waiter from its middle in constant time. */
  readonly #queue = new Set<QueuedCall>()

  constructor(limit: number) {
    this.limit = limit
  }

  get held(): number {
    return this.#held
  }

  get waiting(): number {
    return this.#queue.size
  }

  /** Takes a slot if one is free. Each slot taken is released exactly once. */
  tryAcquire(): boolean {
    if (this.#held >= this.limit) return false
    this.#held++
    return true
  }

  /** Waits for a slot. True once it is taken, false if the signal stopped the wait first. */
  acquire(signal: StopSignal): Promise<boolean> {
    if (signal.reason !== null) return Promise.resolve(false)
    if (this.tryAcquire()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const call: QueuedCall = {
        signal,
        resolve,
        onStop: () => {
          this.#queue.delete(call)
          resolve(false)
        },
      }
      signal.listen(call)
      this.#queue.add(call)
    })
  }

  /** Passes the slot to the first queued call, which continues in a later microtask and never inside this call. */
  release(): void {
    const next = this.#queue.values().next().value
    if (next === undefined) {
      this.#held--
      return
    }
    this.#queue.delete(next)
    next.signal.unlisten(next)
    next.resolve(true)
  }
}
