/** Tells those who wait that something has changed; what it is they look for themselves. */
export class ChangeNotifier {
  #next = Promise.withResolvers<void>()

  tell(): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers<void>()
    resolve()
  }

  /** Resolves at the next change. */
  next(): Promise<void> {
    return this.#next.promise
  }
}
