/**
 * Spreads CPU-heavy work over turns of the event loop: each caller gets a turn of its own, in order. The event loop handles
 * network events in between.
 */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves in a turn of its own. */
  next(): Promise<void> {
    this.#last = this.#last.then(
      () =>
        new Promise((resolve) => {
          setImmediate(resolve)
        }),
    )
    return this.#last
  }
}
