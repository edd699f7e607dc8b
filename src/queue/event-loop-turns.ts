/**
 * Spreads work over turns of the event loop. Each concurrent caller gets a separate turn, in order, and network events are
 * handled in between.
 */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves in a separate turn. */
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
