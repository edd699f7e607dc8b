/** Spreads work over turns of the event loop: one turn for each concurrent caller, in order, with network events in between. */
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
