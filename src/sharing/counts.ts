/** Counts things by key, such as slots by account. A key whose count is 0 takes no memory. */

export interface ReadonlyCounts<Key> {
  readonly total: number
  of(key: Key): number
  /** Returns the keys whose count is not 0. */
  keys(): Iterable<Key>
}

export class Counts<Key> implements ReadonlyCounts<Key> {
  total = 0
  readonly #byKey = new Map<Key, number>()

  of(key: Key): number {
    return this.#byKey.get(key) ?? 0
  }

  keys(): Iterable<Key> {
    return this.#byKey.keys()
  }

  /** @param count a negative number subtracts */
  add(key: Key, count: number): void {
    this.total += count
    const now = (this.#byKey.get(key) ?? 0) + count
    if (now === 0) this.#byKey.delete(key)
    else this.#byKey.set(key, now)
  }
}
