/** Wakes everything that waits for a change. Each waiter then checks its own condition. */
export class ChangeNotifier {
  #next = Promise.withResolvers<void>()

  notify(): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers<void>()
    resolve()
  }

  /** Resolves at the next change. */
  next(): Promise<void> {
    return this.#next.promise
  }
}
