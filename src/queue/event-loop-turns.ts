/**
 * Spreads work over turns of the event loop: of what asks for a turn at the same time, each gets one of its own, in the
 * order of asking, and what came from the network meanwhile is handled in between.
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
